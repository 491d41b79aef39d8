/* Weighted maximum likelihood of laws with one predictor, for LANES draws side by side.

   A draw gives row i of x the mass m_i and the outcomes s_i, and in all t_i, mass times trials. Minus
   the log-likelihood is, up to what no parameter changes,

       Poisson    sum t exp(eta) - s eta,                   eta = offset + z theta,
       others     -sum s log P + (t - s) log(1 - P),        P the probability of success at eta. */

enum { LOGIT, POISSON, PROBIT, CLOGLOG };

/* What exp is taken of at most, as in NumPy. */
#define LARGE_LOG_MEAN 300.0
#define LARGE_LOG_HAZARD 150.0

/* Rows that are taken at a time. */
#define ROWS 4

/* The part of a row in the loss. */
static inline V row_loss(const int64_t law, V t, V s, V eta)
{
    if (law == POISSON) return t * vexp(smaller(eta, all(LARGE_LOG_MEAN))) - s * eta;
    if (law == LOGIT) return t * (vlog1p(vexp(-vabs(eta))) + larger(eta, all(0.0))) - s * eta;
    if (law == PROBIT) {
        /* The smaller probability, tail * exp(-eta^2 / 2), and the larger one, 1 - less. */
        V square = 0.5 * eta * eta, tail = 0.5 * verfcx(vabs(eta) * 0.70710678118654752440);
        V less = tail * vexp(-square);
        V unlikely = vlog(tail) - square, likely = -vlog1p(less / (1.0 - less));
        VI negative = below(eta, all(0.0));
        return -s * pick(negative, unlikely, likely) - (t - s) * pick(negative, likely, unlikely);
    }
    V hazard = vexp(smaller(eta, all(LARGE_LOG_HAZARD)));
    VI tiny = below(hazard, all(1e-300));
    V log_prob = pick(tiny, eta, vlog(pick(tiny, all(1.0), -vexpm1(-hazard))));
    return (t - s) * hazard - s * log_prob;
}

/* Its derivative in eta. */
static inline V row_slope(const int64_t law, V t, V s, V eta)
{
    if (law == POISSON) return t * vexp(smaller(eta, all(LARGE_LOG_MEAN))) - s;
    if (law == LOGIT) {
        V small = vexp(-vabs(eta));
        return t * (pick(below(eta, all(0.0)), small, all(1.0)) / (1.0 + small)) - s;
    }
    if (law == PROBIT) {
        const double peak = 0.39894228040143267794;
        V tail = 0.5 * verfcx(vabs(eta) * 0.70710678118654752440), bell = vexp(-0.5 * eta * eta);
        V unlikely = peak / tail, likely = peak * bell / (1.0 - tail * bell);
        VI negative = below(eta, all(0.0));
        return (t - s) * pick(negative, likely, unlikely) - s * pick(negative, unlikely, likely);
    }
    V hazard = vexp(smaller(eta, all(LARGE_LOG_HAZARD)));
    VI tiny = below(hazard, all(1e-300));
    return (t - s) * hazard - s * pick(tiny, all(1.0), hazard / pick(tiny, all(1.0), vexpm1(hazard)));
}

/* A block of B tables of m cells: the row of each cell, which never falls, and its outcome. The mass
   of cell c for draw b is p[c * by_cell + b * by_draw]. Where every row has one cell (m = n), sums
   over the cells of a row are no sums. */
typedef struct {
    int64_t law, n, d, m;
    const double *z, *offset, *trials;
    const int64_t *row;
    const double *y, *p;
    int64_t by_cell, by_draw;
    /* Of the LANES draws in work, (n, LANES): t and s, or the mass where every row has one cell. */
    double *total, *outcomes;
} Tables;

#define TABLES \
    int64_t law, int64_t n, int64_t d, int64_t m, const double *z, const double *offset, \
        const double *trials, const int64_t *row, const double *y, const double *p, int64_t by_cell, \
        int64_t by_draw
#define TABLES_GIVEN law, n, d, m, z, offset, trials, row, y, p, by_cell, by_draw

/* Take the draws from b on; beyond the last one it is repeated. */
static void take_draws(const Tables *t, int64_t b, int64_t last)
{
    const double *of[LANES];
    for (int lane = 0; lane < LANES; lane++)
        of[lane] = t->p + (b + lane < last ? b + lane : last - 1) * t->by_draw;
    if (t->m == t->n) {
        for (int64_t i = 0; i < t->n; i++)
            for (int lane = 0; lane < LANES; lane++)
                t->total[i * LANES + lane] = of[lane][i * t->by_cell];
        return;
    }
    int64_t c = 0;
    for (int64_t i = 0; i < t->n; i++) {
        double mass[LANES] = {0}, sum[LANES] = {0};
        for (; c < t->m && t->row[c] == i; c++)
            for (int lane = 0; lane < LANES; lane++) {
                double w = of[lane][c * t->by_cell];
                mass[lane] += w;
                sum[lane] += w * t->y[c];
            }
        for (int lane = 0; lane < LANES; lane++) {
            t->total[i * LANES + lane] = mass[lane] * t->trials[i];
            t->outcomes[i * LANES + lane] = sum[lane];
        }
    }
}

/* t and s of row i. */
static inline void sums_of(const Tables *t, const int single, int64_t i, V *total, V *outcomes)
{
    *total = load(t->total + i * LANES);
    if (!single) *outcomes = load(t->outcomes + i * LANES);
    else {
        *outcomes = *total * t->y[i];
        *total = *total * t->trials[i];
    }
}

static inline void predict(const Tables *t, int64_t i, const int rows, const double *theta, V *eta)
{
    for (int r = 0; r < rows; r++) eta[r] = all(t->offset[i + r]);
    for (int64_t j = 0; j < t->d; j++) {
        V b = load(theta + j * LANES);
        for (int r = 0; r < rows; r++) eta[r] += t->z[(i + r) * t->d + j] * b;
    }
}

static inline void slope_of_rows(
    const Tables *t, const int64_t law, const int single, int64_t i, const int rows,
    const double *theta, double *grad)
{
    V eta[ROWS], slope[ROWS];
    predict(t, i, rows, theta, eta);
    for (int r = 0; r < rows; r++) {
        V total, outcomes;
        sums_of(t, single, i + r, &total, &outcomes);
        slope[r] = row_slope(law, total, outcomes, eta[r]);
    }
    for (int64_t j = 0; j < t->d; j++) {
        V g = load(grad + j * LANES);
        for (int r = 0; r < rows; r++) g += t->z[(i + r) * t->d + j] * slope[r];
        store(grad + j * LANES, g);
    }
}

static inline void slope_of_law(
    const Tables *t, const int64_t law, const int single, const double *theta, double *grad)
{
    int64_t i = 0;
    for (int64_t j = 0; j < t->d; j++) store(grad + j * LANES, all(0.0));
    for (; i + ROWS <= t->n; i += ROWS) slope_of_rows(t, law, single, i, ROWS, theta, grad);
    for (; i < t->n; i++) slope_of_rows(t, law, single, i, 1, theta, grad);
}

/* The gradient (d, LANES) at theta (d, LANES). */
static void slope(const Tables *t, const double *theta, double *grad)
{
    const int single = t->m == t->n;
    if (t->law == POISSON && single) slope_of_law(t, POISSON, 1, theta, grad);
    else if (t->law == POISSON) slope_of_law(t, POISSON, 0, theta, grad);
    else if (t->law == PROBIT) slope_of_law(t, PROBIT, single, theta, grad);
    else if (t->law == CLOGLOG) slope_of_law(t, CLOGLOG, single, theta, grad);
    else if (single) slope_of_law(t, LOGIT, 1, theta, grad);
    else slope_of_law(t, LOGIT, 0, theta, grad);
}

static inline V value_of_rows(
    const Tables *t, const int64_t law, int64_t i, const int rows, const double *theta, V sum)
{
    V eta[ROWS];
    predict(t, i, rows, theta, eta);
    for (int r = 0; r < rows; r++) {
        V total, outcomes;
        sums_of(t, t->m == t->n, i + r, &total, &outcomes);
        sum += row_loss(law, total, outcomes, eta[r]);
    }
    return sum;
}

static inline V value_of_law(const Tables *t, const int64_t law, const double *theta)
{
    V sum = all(0.0);
    int64_t i = 0;
    for (; i + ROWS <= t->n; i += ROWS) sum = value_of_rows(t, law, i, ROWS, theta, sum);
    for (; i < t->n; i++) sum = value_of_rows(t, law, i, 1, theta, sum);
    return sum;
}

/* The value (LANES,) at theta (d, LANES). */
static V value(const Tables *t, const double *theta)
{
    if (t->law == POISSON) return value_of_law(t, POISSON, theta);
    if (t->law == PROBIT) return value_of_law(t, PROBIT, theta);
    if (t->law == CLOGLOG) return value_of_law(t, CLOGLOG, theta);
    return value_of_law(t, LOGIT, theta);
}

static void take_theta(int64_t d, int64_t n_draws, const double *theta, int64_t b, int64_t last,
                       double *at)
{
    for (int lane = 0; lane < LANES; lane++) {
        int64_t draw = b + lane < last ? b + lane : last - 1;
        for (int64_t j = 0; j < d; j++) at[j * LANES + lane] = theta[j * n_draws + draw];
    }
}

/* Values (B,) at theta (d, B) of the draws first, ..., last - 1, and gradients (d, B) unless NULL;
   without the penalty. `work` holds (2 n + 2 d + 1) LANES numbers. */
ENTRY(likelihood)(
    TABLES, int64_t n_draws, int64_t first, int64_t last, const double *theta, double *values,
    double *grad, double *work)
{
    const Tables tables = {TABLES_GIVEN, work, work + n * LANES};
    double *at = work + 2 * n * LANES, *slopes = at + d * LANES, *found = slopes + d * LANES;
    for (int64_t b = first; b < last; b += LANES) {
        take_draws(&tables, b, last);
        take_theta(d, n_draws, theta, b, last, at);
        store(found, value(&tables, at));
        if (grad) slope(&tables, at, slopes);
        for (int lane = 0; lane < LANES && b + lane < last; lane++) {
            values[b + lane] = found[lane];
            for (int64_t j = 0; grad && j < d; j++)
                grad[j * n_draws + b + lane] = slopes[j * LANES + lane];
        }
    }
}

/* The smallest and the largest predictor of all rows, (B,), at theta (d, B) of the draws first, ...,
   last - 1. `work` holds (d + 2) LANES numbers. */
ENTRY(reach)(
    int64_t n, int64_t d, const double *z, const double *offset, int64_t n_draws, int64_t first,
    int64_t last, const double *theta, double *low, double *high, double *work)
{
    const Tables rows = {.n = n, .d = d, .z = z, .offset = offset};
    double *at = work, *ends = work + d * LANES;
    for (int64_t b = first; b < last; b += LANES) {
        take_theta(d, n_draws, theta, b, last, at);
        V least = all(1e300), most = all(-1e300), eta[ROWS];
        int64_t i = 0;
        for (; i + ROWS <= n; i += ROWS) {
            predict(&rows, i, ROWS, at, eta);
            for (int r = 0; r < ROWS; r++) {
                least = smaller(least, eta[r]);
                most = larger(most, eta[r]);
            }
        }
        for (; i < n; i++) {
            predict(&rows, i, 1, at, eta);
            least = smaller(least, eta[0]);
            most = larger(most, eta[0]);
        }
        store(ends, least);
        store(ends + LANES, most);
        for (int lane = 0; lane < LANES && b + lane < last; lane++) {
            low[b + lane] = ends[lane];
            high[b + lane] = ends[LANES + lane];
        }
    }
}
