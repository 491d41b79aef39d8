/* LANES numbers at a time, one for each of as many draws.

   Vectors are those of GCC and Clang, without instructions of a platform; other compilers, and
   -DSCALAR, take one number at a time. A lane never meets another lane, nothing is fused
   (-ffp-contract=off) and no function of the C library is called on numbers, so that the bits are
   the same with every compiler, instruction set and number of lanes. */

#include <stdint.h>
#include <string.h>

#if defined(_WIN32)
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED __attribute__((visibility("default")))
#endif

/* The name of a function in this instruction set, NAME_plain, NAME_avx2 or NAME_avx512. */
#ifndef LEVEL
#define LEVEL plain
#endif
#define JOINED_(name, level) name##_##level
#define JOINED(name, level) JOINED_(name, level)
#define ENTRY(name) EXPORTED void JOINED(name, LEVEL)

#if (defined(__GNUC__) || defined(__clang__)) && !defined(SCALAR)

/* As many as the instruction set holds in a register. */
#if defined(__AVX512F__)
#define LANES 8
#elif defined(__AVX2__)
#define LANES 4
#else
#define LANES 2
#endif

/* The only alignment that is asked for is that of a number. */
typedef double V __attribute__((vector_size(8 * LANES)));
typedef int64_t VI __attribute__((vector_size(8 * LANES)));
typedef double VU __attribute__((vector_size(8 * LANES), aligned(8), may_alias));

static inline V all(double x) { return x - (V){0}; }
static inline V load(const double *p) { return *(const VU *)p; }
static inline void store(double *p, V x) { *(VU *)p = x; }
static inline V pick(VI where, V a, V b) { return (V)((where & (VI)a) | (~where & (VI)b)); }
static inline V vabs(V a) { return (V)((VI)a & INT64_MAX); }
static inline V vsqrt(V a)
{
    V r;
    for (int i = 0; i < LANES; i++) r[i] = __builtin_sqrt(a[i]);
    return r;
}
/* 2^k for whole k in [-1022, 1023], from k + 1.5 * 2^52. */
static inline V power_of_two(V shifted) { return (V)(((VI)shifted + 1023) << 52); }
static inline VI below(V a, V b) { return a < b; }
/* Finite, positive and normal x is significand * 2^exponent, with the significand in [1, 2). */
static inline void split(V x, V *significand, V *exponent)
{
    VI bits = (VI)x;
    *significand = (V)((bits & 0x000fffffffffffffLL) | 0x3ff0000000000000LL);
    /* A number in [2^52, 2^53) holds a whole number in its lowest bits. */
    *exponent = (V)(((bits >> 52) & 0x7ff) | 0x4330000000000000LL) - (4503599627370496.0 + 1023.0);
}

#else

#include <math.h>

#define LANES 1

typedef double V;
typedef int64_t VI;

static inline VI bits_of(double x) { VI b; memcpy(&b, &x, sizeof b); return b; }
static inline double of_bits(VI b) { double x; memcpy(&x, &b, sizeof x); return x; }
static inline V all(double x) { return x; }
static inline V load(const double *p) { return *p; }
static inline void store(double *p, V x) { *p = x; }
static inline V pick(VI where, V a, V b) { return where ? a : b; }
static inline V vabs(V a) { return of_bits(bits_of(a) & INT64_MAX); }
static inline V vsqrt(V a) { return sqrt(a); }
static inline V power_of_two(V shifted) { return of_bits((VI)((uint64_t)(bits_of(shifted) + 1023) << 52)); }
static inline VI below(V a, V b) { return a < b; }
static inline void split(V x, V *significand, V *exponent)
{
    VI bits = bits_of(x);
    *significand = of_bits((bits & 0x000fffffffffffffLL) | 0x3ff0000000000000LL);
    *exponent = of_bits(((bits >> 52) & 0x7ff) | 0x4330000000000000LL) - (4503599627370496.0 + 1023.0);
}

#endif

static inline double largest(double a, double b) { return a < b ? b : a; }
static inline double size_of(double a) { return a < 0 ? -a : a; }
static inline int is_finite(double a) { return a - a == 0; }
static inline V larger(V a, V b) { return pick(below(a, b), b, a); }
static inline V smaller(V a, V b) { return pick(below(b, a), b, a); }

/* exp(x) is (1 + *rest) * high * low, with powers of two high and low. */
static inline void split_exp(V x, V *rest, V *high, V *low)
{
    const V magic = all(6755399441055744.0);
    x = larger(smaller(x, all(710.0)), all(-746.0));
    V k = (x * 1.4426950408889634 + magic) - magic;
    V r = x - k * 6.93147180369123816490e-01;
    r = r - k * 1.90821492927058770002e-10;
    V r2 = r * r, r4 = r2 * r2;
    V a = (0.5 + r * 1.6666666666666666e-01) + r2 * (4.1666666666666664e-02 + r * 8.333333333333333e-03);
    V b = (1.388888888888889e-03 + r * 1.984126984126984e-04) + r2 * (2.48015873015873e-05 + r * 2.7557319223985893e-06);
    V c = (2.755731922398589e-07 + r * 2.505210838544172e-08) + r2 * (2.08767569878681e-09 + r * 1.6059043836821613e-10);
    *rest = r + r2 * (a + r4 * (b + r4 * c));
    /* In two steps, so that the powers of two are numbers where the result is large or tiny. */
    V half = (k * 0.5 + magic);
    *high = power_of_two(half);
    *low = power_of_two((k - (half - magic)) + magic);
}

/* exp(x), to one unit in the last place: 0 below -745, infinite above 710. */
static inline V vexp(V x) { V rest, high, low; split_exp(x, &rest, &high, &low); return (1.0 + rest) * high * low; }

/* exp(x) - 1, without loss of digits near 0. */
static inline V vexpm1(V x) { V rest, high, low; split_exp(x, &rest, &high, &low); return rest * high * low + (high * low - 1.0); }

/* f - log(1 + f) for f in [-0.293, 0.415] (fdlibm's polynomial). */
static inline V log_deficit(V f)
{
    V t = f / (2.0 + f), z = t * t, w = z * z;
    V odd = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
    V even = z * (6.666666666666735130e-01 + w * (2.857142874366239149e-01
                  + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
    V half_square = 0.5 * f * f;
    return half_square - t * (half_square + (odd + even));
}

/* log(1 + f) plus k log 2. */
static inline V log_near_one(V f, V k) { return k * 6.93147180369123816490e-01 - ((log_deficit(f) - k * 1.90821492927058770002e-10) - f); }

/* log(1 + s) for s in [0, 1]. */
static inline V vlog1p(V s)
{
    VI big = below(all(0.41421356237309503), s);
    V f = pick(big, (s - 1.0) * 0.5, s);
    return log_near_one(f, pick(big, all(1.0), all(0.0)));
}

/* exp(x^2) erfc(x) for x of at least 0 (Cody 1969, Math. Comp. 23, 631-637). */
static inline V verfcx(V x)
{
    static const double a[] = {1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3};
    static const double b[] = {1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3};
    static const double c[] = {2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0, 6.61191906371416295e1,
                               2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3};
    static const double d[] = {1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2,
                               1.62138957456669019e3, 3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3};
    static const double e[] = {1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1, 1.60837851487422766e-2, 6.58749161529837803e-4};
    static const double f[] = {1.0, 2.56852019228982242e0, 1.87295284992346725e0, 5.27905102951428412e-1, 6.05183413124413191e-2, 2.33520497626869185e-3};
    V near = smaller(x, all(0.46875)), y = smaller(larger(x, all(0.46875)), all(4.0)), z = larger(x, all(4.0));
    V t = near * near, s = 1.0 / (z * z), p = all(a[0]), q = all(b[0]);
    for (int i = 1; i < 5; i++) { p = p * t + a[i]; q = q * t + b[i]; }
    V small = vexp(t) * (1.0 - near * p / q);
    p = all(c[0]); q = all(d[0]);
    for (int i = 1; i < 9; i++) { p = p * y + c[i]; q = q * y + d[i]; }
    V middle = p / q;
    p = all(e[0]); q = all(f[0]);
    for (int i = 1; i < 6; i++) { p = p * s + e[i]; q = q * s + f[i]; }
    V far = (5.6418958354775628695e-1 - s * p / q) / z;
    return pick(below(all(4.0), x), far, pick(below(all(0.46875), x), middle, small));
}

/* log(x) for normal positive x. */
static inline V vlog(V x)
{
    V significand, exponent;
    split(x, &significand, &exponent);
    VI big = below(all(1.4142135623730951), significand);
    V f = pick(big, significand * 0.5 - 1.0, significand - 1.0);
    return log_near_one(f, pick(big, exponent + 1.0, exponent));
}
