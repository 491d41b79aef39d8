/* Elementary functions of an array, for the tests: which of them, n numbers (a multiple of LANES). */

ENTRY(elementary)(int64_t which, int64_t n, const double *x, double *out)
{
    for (int64_t i = 0; i + LANES <= n; i += LANES) {
        V v = load(x + i);
        switch (which) {
        case 0: v = vexp(v); break; case 1: v = vlog1p(v); break; case 2: v = vlog(v); break;
        case 3: v = vsqrt(v); break; case 4: v = vexpm1(v); break; default: v = verfcx(v);
        }
        store(out + i, v);
    }
}
