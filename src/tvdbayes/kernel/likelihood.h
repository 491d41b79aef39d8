/* Weighted maximum likelihood of laws with one predictor, for LANES draws side by side.

   A draw gives row i of x the mass m_i and the outcomes s_i, and in all t_i, mass times trials. Minus
   the log-likelihood is, up to what no parameter changes,

       Poisson             sum t exp(eta) - s eta,                   eta = offset + z theta,
       Bernoulli, binomial -sum s log P + (t - s) log(1 - P),        P the probability of success at eta,
       negative binomial   sum t level + s (log_total - eta) - sum m C(y),           see `dispersion.h`,

   whose log dispersion is the last parameter, with a column of 0 in z. */

enum { LOGIT, POISSON, PROBIT, CLOGLOG, NEGBIN };

/* What exp is taken of at most, as in NumPy. */
#define LARGE_LOG_HAZARD 150.0
/* Rows that are taken at a time. */
#define ROWS 4

/* The part of a row in the loss. */
static inline V row_loss(const int64_t law, V t, V s, V eta, V u)
{
    if (law == POISSON) return t * vexp(smaller(eta, all(LARGE_LOG_MEAN))) - s * eta;
    if (law == LOGIT) return t * (vlog1p(vexp(-vabs(eta))) + larger(eta, all(0.0))) - s * eta;
    if (law == NEGBIN) {
        const Dispersed at = at_dispersion(u, eta);
        return t * at.level + s * (at.log_total - at.log_mean);
    }
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

/* Its derivative in eta, and `own` plus that in the log dispersion. */
static inline V row_slope(const int64_t law, V t, V s, V eta, V u, V *own)
{
    if (law == POISSON) return t * vexp(smaller(eta, all(LARGE_LOG_MEAN))) - s;
    if (law == NEGBIN) {
        const Dispersed at = at_dispersion(u, eta);
        *own += s * at.share - t * at.own;
        return (t * at.mean - s) * at.rest;
    }
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

/* A block of B tables of m cells: the row of each cell, which never falls, and its outcome. The mass of
   cell c for draw b is p[c * by_cell + b * by_draw]. Where every row has one cell (m = n), sums over the
   cells of a row are no sums. Where there is a dispersion: the distinct outcomes, and that of a cell. */
typedef struct {
    int64_t law, n, d, m;
    const double *z, *offset, *trials;
    const int64_t *row;
    const double *y, *p;
    int64_t by_cell, by_draw, n_outcomes;
    const double *outcome;
    const int64_t *outcome_of_cell;
    /* Of the LANES draws in work: t and s, or the mass where every row has one cell; the mass of each
       outcome, and what `outcome_terms` says of it. */
    double *total, *outcomes, *mass, *terms;
} Tables;

#define TABLES \
    int64_t law, int64_t n, int64_t d, int64_t m, const double *z, const double *offset, const double *trials, \
        const int64_t *row, const double *y, const double *p, int64_t by_cell, int64_t by_draw, \
        int64_t n_outcomes, const double *outcome, const int64_t *outcome_of_cell
#define TABLES_GIVEN law, n, d, m, z, offset, trials, row, y, p, by_cell, by_draw, n_outcomes, outcome, outcome_of_cell
/* What a table takes of `work`, and what is left of that. */
#define WORK work, work + n * LANES, work + 2 * n * LANES, work + (2 * n + n_outcomes) * LANES
#define WORK_LEFT work + (2 * n + 4 * n_outcomes) * LANES

/* Take the draws from b on; beyond the last one it is repeated. */
static void take_draws(const Tables *t, int64_t b, int64_t last)
{
    const double *of[LANES];
    for (int lane = 0; lane < LANES; lane++) of[lane] = t->p + (b + lane < last ? b + lane : last - 1) * t->by_draw;
    memset(t->mass, 0, sizeof(double) * (size_t)(t->n_outcomes * LANES));
    for (int64_t i = 0; t->m == t->n && i < t->n; i++)
        for (int lane = 0; lane < LANES; lane++) t->total[i * LANES + lane] = of[lane][i * t->by_cell];
    for (int64_t c = 0; t->n_outcomes && c < t->m; c++)
        for (int lane = 0; lane < LANES; lane++)
            t->mass[t->outcome_of_cell[c] * LANES + lane] += of[lane][c * t->by_cell];
    for (int64_t i = 0, c = 0; t->m != t->n && i < t->n; i++) {
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
    const V mass = load(t->total + i * LANES);
    *outcomes = single ? mass * t->y[i] : load(t->outcomes + i * LANES);
    *total = single ? mass * t->trials[i] : mass;
}

static inline void predict(const Tables *t, int64_t i, const int rows, const double *theta, V *eta)
{
    for (int r = 0; r < rows; r++) eta[r] = all(t->offset[i + r]);
    for (int64_t j = 0; j < t->d; j++) {
        V b = load(theta + j * LANES);
        for (int r = 0; r < rows; r++) eta[r] += t->z[(i + r) * t->d + j] * b;
    }
}

/* The dispersion, and into `terms` what outcomes have of it. */
static inline V disperse(const Tables *t, const int64_t law, const double *theta)
{
    if (law != NEGBIN) return all(0.0);
    outcome_terms(load(theta + (t->d - 1) * LANES), t->n_outcomes, t->outcome, LANES, t->terms);
    return dispersion(load(theta + (t->d - 1) * LANES));
}

static inline V slope_of_rows(
    const Tables *t, const int64_t law, const int single, int64_t i, const int rows, const double *theta, V u,
    double *grad, V own)
{
    V eta[ROWS], slope[ROWS];
    predict(t, i, rows, theta, eta);
    for (int r = 0; r < rows; r++) {
        V total, outcomes;
        sums_of(t, single, i + r, &total, &outcomes);
        slope[r] = row_slope(law, total, outcomes, eta[r], u, &own);
    }
    for (int64_t j = 0; j < t->d; j++) {
        V g = load(grad + j * LANES);
        for (int r = 0; r < rows; r++) g += t->z[(i + r) * t->d + j] * slope[r];
        store(grad + j * LANES, g);
    }
    return own;
}

static inline void slope_of_law(const Tables *t, const int64_t law, const int single, const double *theta, double *grad)
{
    int64_t i = 0;
    V u = disperse(t, law, theta), own = all(0.0);
    for (int64_t j = 0; j < t->d; j++) store(grad + j * LANES, all(0.0));
    for (; i + ROWS <= t->n; i += ROWS) own = slope_of_rows(t, law, single, i, ROWS, theta, u, grad, own);
    for (; i < t->n; i++) own = slope_of_rows(t, law, single, i, 1, theta, u, grad, own);
    if (law != NEGBIN) return;
    for (int64_t k = 0; k < t->n_outcomes; k++) own -= load(t->mass + k * LANES) * load(t->terms + (3 * k + 1) * LANES);
    store(grad + (t->d - 1) * LANES, own);
}

static inline void value_of_law(const Tables *t, const int64_t law, const int single, const double *theta, double *value)
{
    V u = disperse(t, law, theta), sum = all(0.0), eta[ROWS], total, outcomes;
    for (int64_t i = 0, rows = ROWS; i < t->n; i += rows) {
        rows = i + ROWS <= t->n ? ROWS : 1;
        predict(t, i, (int)rows, theta, eta);
        for (int r = 0; r < rows; r++) {
            sums_of(t, single, i + r, &total, &outcomes);
            sum += row_loss(law, total, outcomes, eta[r], u);
        }
    }
    for (int64_t k = 0; law == NEGBIN && k < t->n_outcomes; k++) sum -= load(t->mass + k * LANES) * load(t->terms + 3 * k * LANES);
    store(value, sum);
}

/* A pass, compiled for each law, and for rows of one cell where that pays. */
#define OF_ITS_LAW(pass) \
    const int single = t->m == t->n; \
    if (t->law == NEGBIN) pass(t, NEGBIN, single, theta, out); \
    else if (t->law == PROBIT) pass(t, PROBIT, single, theta, out); \
    else if (t->law == CLOGLOG) pass(t, CLOGLOG, single, theta, out); \
    else if (t->law == POISSON) { if (single) pass(t, POISSON, 1, theta, out); else pass(t, POISSON, 0, theta, out); } \
    else { if (single) pass(t, LOGIT, 1, theta, out); else pass(t, LOGIT, 0, theta, out); }

/* The value (LANES,) and the gradient (d, LANES) at theta (d, LANES). */
static void value(const Tables *t, const double *theta, double *out) { OF_ITS_LAW(value_of_law) }
static void slope(const Tables *t, const double *theta, double *out) { OF_ITS_LAW(slope_of_law) }

static void take_theta(int64_t d, int64_t n_draws, const double *theta, int64_t b, int64_t last, double *at)
{
    for (int lane = 0; lane < LANES; lane++)
        for (int64_t j = 0; j < d; j++) at[j * LANES + lane] = theta[j * n_draws + (b + lane < last ? b + lane : last - 1)];
}

/* Values (B,) at theta (d, B) of the draws first, ..., last - 1, and gradients (d, B) unless NULL;
   without the penalty. `work` holds (2 n + 4 n_outcomes + 2 d + 1) LANES numbers. */
ENTRY(likelihood)(
    TABLES, int64_t n_draws, int64_t first, int64_t last, const double *theta, double *values, double *grad, double *work)
{
    const Tables tables = {TABLES_GIVEN, WORK};
    double *at = WORK_LEFT, *slopes = at + d * LANES, *found = slopes + d * LANES;
    for (int64_t b = first; b < last; b += LANES) {
        take_draws(&tables, b, last);
        take_theta(d, n_draws, theta, b, last, at);
        value(&tables, at, found);
        if (grad) slope(&tables, at, slopes);
        for (int lane = 0; lane < LANES && b + lane < last; lane++) {
            values[b + lane] = found[lane];
            for (int64_t j = 0; grad && j < d; j++) grad[j * n_draws + b + lane] = slopes[j * LANES + lane];
        }
    }
}
