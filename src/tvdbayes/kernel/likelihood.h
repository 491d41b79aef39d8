/* Weighted maximum likelihood of laws with one predictor, for LANES draws side by side.

   A draw gives row i of x the mass m_i and the outcomes s_i: in all t_i, mass times trials. Minus the
   log-likelihood is, up to what no parameter changes,

       logit      sum t log(1 + exp(eta)) - s eta
       Poisson    sum t exp(eta) - s eta,                   eta = offset + z theta. */

enum { LOGIT, POISSON };

/* log mean above which the mean does not grow any more, as in NumPy. */
#define LARGE_LOG_MEAN 300.0

/* Rows that are taken at a time. */
#define ROWS 4

static inline V mean_of(const int64_t law, V eta)
{
    if (law == POISSON) return vexp(smaller(eta, all(LARGE_LOG_MEAN)));
    V small = vexp(-vabs(eta));
    return pick(below(eta, all(0.0)), small, all(1.0)) / (1.0 + small);
}

static inline V cumulant_of(const int64_t law, V eta)
{
    if (law == POISSON) return vexp(smaller(eta, all(LARGE_LOG_MEAN)));
    return vlog1p(vexp(-vabs(eta))) + larger(eta, all(0.0));
}

/* The x rows of a table and the sums of LANES draws: `total` and `outcomes` are (n, LANES). */
typedef struct {
    int64_t law, n, d;
    const double *z, *offset, *total, *outcomes;
} Rows;

static inline void predict(const Rows *t, int64_t i, const int rows, const double *theta, V *eta)
{
    for (int r = 0; r < rows; r++) eta[r] = all(t->offset[i + r]);
    for (int64_t j = 0; j < t->d; j++) {
        V b = load(theta + j * LANES);
        for (int r = 0; r < rows; r++) eta[r] += t->z[(i + r) * t->d + j] * b;
    }
}

static inline void slope_of_rows(
    const int64_t law, const Rows *t, int64_t i, const int rows, const double *theta, double *grad)
{
    V eta[ROWS], slope[ROWS];
    predict(t, i, rows, theta, eta);
    for (int r = 0; r < rows; r++)
        slope[r] = load(t->total + (i + r) * LANES) * mean_of(law, eta[r])
            - load(t->outcomes + (i + r) * LANES);
    for (int64_t j = 0; j < t->d; j++) {
        V g = load(grad + j * LANES);
        for (int r = 0; r < rows; r++) g += t->z[(i + r) * t->d + j] * slope[r];
        store(grad + j * LANES, g);
    }
}

static inline void slope_of_law(
    const int64_t law, const Rows *t, const double *theta, double *grad)
{
    int64_t i = 0;
    for (int64_t j = 0; j < t->d; j++) store(grad + j * LANES, all(0.0));
    for (; i + ROWS <= t->n; i += ROWS) slope_of_rows(law, t, i, ROWS, theta, grad);
    for (; i < t->n; i++) slope_of_rows(law, t, i, 1, theta, grad);
}

/* The gradient (d, LANES) at theta (d, LANES). */
static void slope(const Rows *t, const double *theta, double *grad)
{
    if (t->law == POISSON) slope_of_law(POISSON, t, theta, grad);
    else slope_of_law(LOGIT, t, theta, grad);
}

static inline V value_of_rows(
    const int64_t law, const Rows *t, int64_t i, const int rows, const double *theta, V sum)
{
    V eta[ROWS];
    predict(t, i, rows, theta, eta);
    for (int r = 0; r < rows; r++)
        sum += load(t->total + (i + r) * LANES) * cumulant_of(law, eta[r])
            - load(t->outcomes + (i + r) * LANES) * eta[r];
    return sum;
}

static inline V value_of_law(const int64_t law, const Rows *t, const double *theta)
{
    V sum = all(0.0);
    int64_t i = 0;
    for (; i + ROWS <= t->n; i += ROWS) sum = value_of_rows(law, t, i, ROWS, theta, sum);
    for (; i < t->n; i++) sum = value_of_rows(law, t, i, 1, theta, sum);
    return sum;
}

/* The value (LANES,) at theta (d, LANES). */
static V value(const Rows *t, const double *theta)
{
    if (t->law == POISSON) return value_of_law(POISSON, t, theta);
    return value_of_law(LOGIT, t, theta);
}

/* What a block of B tables is made of: m cells, the row of each, its outcome; p[c, b] is at
   p[c * by_cell + b * by_draw]. */
typedef struct {
    int64_t law, n, d, m, by_cell, by_draw;
    const double *z, *offset, *trials, *y, *p;
    const int64_t *row;
} Tables;

/* Put the sums of draw b into a lane of `total` and `outcomes` (n, LANES). */
static void put_draw(const Tables *t, int64_t b, int lane, double *total, double *outcomes)
{
    const double *p = t->p + b * t->by_draw;
    int64_t c = 0;
    for (int64_t i = 0; i < t->n; i++) {
        double mass = 0, sum = 0;
        for (; c < t->m && t->row[c] == i; c++) {
            double w = p[c * t->by_cell];
            mass += w;
            sum += w * t->y[c];
        }
        total[i * LANES + lane] = mass * t->trials[i];
        outcomes[i * LANES + lane] = sum;
    }
}

/* Values (B,) at theta (d, B) of the draws first, ..., last - 1, and gradients (d, B) unless NULL;
   without the penalty. `work` holds (2 n + 2 d + 1) LANES numbers. */
ENTRY(likelihood)(
    int64_t law, int64_t n, int64_t d, int64_t m, const double *z, const double *offset,
    const double *trials, const int64_t *row, const double *y, const double *p, int64_t by_cell,
    int64_t by_draw, int64_t n_draws, int64_t first, int64_t last, const double *theta,
    double *values, double *grad, double *work)
{
    const Tables tables = {law, n, d, m, by_cell, by_draw, z, offset, trials, y, p, row};
    double *total = work, *outcomes = total + n * LANES, *at = outcomes + n * LANES;
    double *slopes = at + d * LANES, *found = slopes + d * LANES;
    const Rows rows = {law, n, d, z, offset, total, outcomes};
    for (int64_t b = first; b < last; b += LANES) {
        for (int lane = 0; lane < LANES; lane++) {
            /* Lanes beyond the last draw repeat it. */
            int64_t draw = b + lane < last ? b + lane : last - 1;
            put_draw(&tables, draw, lane, total, outcomes);
            for (int64_t j = 0; j < d; j++) at[j * LANES + lane] = theta[j * n_draws + draw];
        }
        store(found, value(&rows, at));
        if (grad) slope(&rows, at, slopes);
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
    double *at = work, *ends = work + d * LANES;
    const Rows rows = {0, n, d, z, offset, NULL, NULL};
    for (int64_t b = first; b < last; b += LANES) {
        for (int lane = 0; lane < LANES; lane++) {
            int64_t draw = b + lane < last ? b + lane : last - 1;
            for (int64_t j = 0; j < d; j++) at[j * LANES + lane] = theta[j * n_draws + draw];
        }
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
