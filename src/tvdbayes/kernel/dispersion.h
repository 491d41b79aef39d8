/* The negative binomial law: what of it depends on an outcome and the dispersion u, and on a row.

   With t = u mu and mu = exp(eta),

       log f(y) = C(y) - log y! + y (eta - log(1 + t)) - log(1 + t) / u,
       C(y) = lgamma(y + 1 / u) - lgamma(1 / u) + y log u,    P = u dC/du,    Q = u dP/du,

   where C is the sum of log(1 + u k) over k < y if y is whole. All are written so that nothing cancels
   as u falls to 0, where the law is Poisson's: C, P and Q fall with it. */

/* Bounds, as in NumPy. */
#define LARGE_LOG_MEAN 300.0
#define LARGE_LOG_DISPERSION 60.0
/* From here on the series below are right to rounding (DLMF 5.11). */
#define SHIFT 16

static inline V dispersion(V log_dispersion)
{
    return vexp(larger(smaller(log_dispersion, all(LARGE_LOG_DISPERSION)), all(-LARGE_LOG_DISPERSION)));
}

/* log(1 + t) for t of at least 0, and how much more than t that is. */
static inline V log_and_excess(V t, V *excess)
{
    V whole = 1.0 + t, significand, exponent;
    VI small = below(t, all(0.41421356237309503));
    split(whole, &significand, &exponent);
    VI big = below(all(1.4142135623730951), significand);
    V f = pick(small, t, pick(big, significand * 0.5, significand) - 1.0);
    V k = pick(small, all(0.0), pick(big, exponent + 1.0, exponent));
    V value = log_near_one(f, k) + pick(small, all(0.0), (t - (whole - 1.0)) / whole);
    *excess = pick(small, -log_deficit(f), value - t);
    return value;
}

/* C, P and Q of n outcomes, three rows of `stride` numbers for each. */
static void outcome_terms(V log_dispersion, int64_t n, const double *outcome, int64_t stride, double *out)
{
    const V u = dispersion(log_dispersion), size = 1.0 / u;
    const VI low = below(size, all(SHIFT));
    const V shift = pick(low, all(SHIFT), all(0.0)), base = size + shift, i = 1.0 / base, ii = i * i;
    V unused;
    const V ratio = log_and_excess(shift * u, &unused);
#define STIRLING(i, s) i * (1.0 / 12 - s * (1.0 / 360 - s * (1.0 / 1260 - s * (1.0 / 1680 - s / 1188))))
#define DIGAMMA(s) s * (1.0 / 12 - s * (1.0 / 120 - s * (1.0 / 252 - s * (1.0 / 240 - s / 132))))
#define TRIGAMMA(i, s) i * s * (1.0 / 6 - s * (1.0 / 30 - s * (1.0 / 42 - s * (1.0 / 30 - s * (5.0 / 66)))))
    const V stirling = STIRLING(i, ii), digamma = DIGAMMA(ii), trigamma = TRIGAMMA(i, ii);
    for (int64_t k = 0; k < n; k++, out += 3 * stride) {
        const V y = all(outcome[k]), x = base + y, j = 1.0 / x, jj = j * j, ij = i * j;
        V excess, growth = log_and_excess(y * i, &excess), product = all(1.0), first = all(0.0), second = first;
        for (int s = 0; s < SHIFT; s++) {
            const V a = 1.0 / (size + s), b = 1.0 / (size + y + s), gap = y * a * b;
            product *= (size + y + s) * a;
            first += gap;
            second += gap * (a + b);
        }
        const V more = base * excess + (y - 0.5) * growth + (STIRLING(j, jj) - stirling);
        const V own = -size * excess - 0.5 * (size * (y * ij)) + size * (DIGAMMA(jj) - digamma);
        const V lag = pick(low, own + y * shift * i - size * first, own);
        V bent = y * (shift * (base + size) + base * y) * ij - 0.5 * (size * (size * (y * (base + x) * ij * ij)));
        bent += size * (size * (TRIGAMMA(j, jj) - trigamma)) - lag;
        store(out, pick(low, more + y * ratio - vlog(product), more));
        store(out + stride, lag);
        store(out + 2 * stride, pick(low, bent - size * (size * second), bent));
    }
}

/* Of a row: eta, bounded as in NumPy, mu, 1 / (1 + t), t / (1 + t), log(1 + t), log(1 + t) / u, and the part
   of d log f / d log u that depends on no outcome. */
typedef struct { V log_mean, mean, rest, share, log_total, level, own; } Dispersed;

static inline Dispersed at_dispersion(V u, V eta)
{
    Dispersed r;
    r.log_mean = smaller(eta, all(LARGE_LOG_MEAN));
    r.mean = vexp(r.log_mean);
    V t = u * r.mean, excess;
    r.rest = 1.0 / (1.0 + t);
    r.share = t * r.rest;
    r.log_total = log_and_excess(t, &excess);
    r.level = r.log_total / u;
    /* Of two forms the one that loses no digits. */
    r.own = pick(below(t, all(1.0)), excess / u + r.mean * r.share, r.level - r.mean * r.rest);
    return r;
}
