/* Elementary functions of an array, for the tests: which of them, n numbers (a multiple of LANES). */

ENTRY(elementary)(int64_t which, int64_t n, const double *x, double *out)
{
    for (int64_t i = 0; i + LANES <= n; i += LANES) {
        V v = load(x + i);
        store(out + i, which == 0 ? vexp(v) : which == 1 ? vlog1p(v) : which == 2 ? vlog(v) : vsqrt(v));
    }
}
