/* Minimise minus the weighted log-likelihood plus a quadratic penalty: quasi-Newton steps (BFGS).

   Every draw begins with the inverse of the curvature of the mean of all tables, which hardly differs
   from its own; what differs is learned from its gradients. So no curvature is ever computed: a step
   costs one pass for a gradient. The problem is convex: along a step the slope only rises, and a step
   that takes it too far above 0 is shortened. A lane whose draw has ended takes the next one.

   Nocedal, J. and Wright, S. J. (2006). Numerical Optimization, 2nd ed., chapter 6. */

/* A slope at the end of a step, as a share of that at its beginning, above which it was too long. */
#define TOO_FAR 0.5
/* Longest entry of a step, and shortest share of a step, as in `Newton`. */
#define LONGEST 5.0
#define SHORTEST 1e-5
/* What the step beyond the last evaluation must promise to leave, as a share of the goal. */
#define LEFT 1e-6

enum { CONVERGED = 0, STALLED = 1, OUT_OF_STEPS = 2 };

/* The search of one draw. */
typedef struct {
    int64_t draw, n_iter;
    double length, promise, before;
    double *theta, *step, *grad, *change, *image, *inverse;
} Search;

static double dot(int64_t d, const double *a, const double *b)
{
    double sum = 0;
    for (int64_t j = 0; j < d; j++) sum += a[j] * b[j];
    return sum;
}

static void times(int64_t d, const double *matrix, const double *a, double *out)
{
    for (int64_t i = 0; i < d; i++) out[i] = dot(d, matrix + i * d, a);
}

/* A new step from theta; its promise is twice the decrease that the quadratic model promises. */
static void aim(Search *s, int64_t d)
{
    double most = 0;
    times(d, s->inverse, s->grad, s->step);
    for (int64_t j = 0; j < d; j++) {
        s->step[j] = -s->step[j];
        double size = s->step[j] < 0 ? -s->step[j] : s->step[j];
        if (size > most) most = size;
    }
    if (most > LONGEST)
        for (int64_t j = 0; j < d; j++) s->step[j] *= LONGEST / most;
    s->promise = -dot(d, s->grad, s->step);
    s->length = 1;
}

/* The inverse curvature, after `length` of the step has changed the gradient by `change`. */
static void learn(Search *s, int64_t d)
{
    double along = s->length * dot(d, s->change, s->step);
    if (!(along > 0)) return;
    times(d, s->inverse, s->change, s->image);
    double factor = (along + dot(d, s->change, s->image)) / (along * along);
    for (int64_t i = 0; i < d; i++)
        for (int64_t j = 0; j <= i; j++) {
            double a = s->length * s->step[i], b = s->length * s->step[j];
            double entry = s->inverse[i * d + j] + factor * (a * b)
                - (s->image[i] * b + a * s->image[j]) / along;
            s->inverse[i * d + j] = s->inverse[j * d + i] = entry;
        }
}

/* Go on from the gradient at theta + length * step; whether the search has ended, and how. */
static int64_t proceed(Search *s, int64_t d, const double *grad, double goal)
{
    double begin = s->n_iter ? -s->promise : 0, end = dot(d, grad, s->step);
    int finite = 1;
    for (int64_t j = 0; j < d; j++) finite &= grad[j] - grad[j] == 0;
    s->n_iter++;
    if (!finite || end > -TOO_FAR * begin) {
        double shorter = finite ? begin / (begin - end) : 0.1;
        s->length *= shorter < 0.1 ? 0.1 : shorter;
        return s->length < SHORTEST || s->n_iter == 1 ? STALLED : -1;
    }
    for (int64_t j = 0; j < d; j++) {
        s->change[j] = grad[j] - s->grad[j];
        s->grad[j] = grad[j];
        s->theta[j] += s->length * s->step[j];
    }
    if (s->n_iter > 1) learn(s, d);
    double full = s->length == 1;
    aim(s, d);
    /* How much the last step has left of the promise is what this one will leave at most. */
    double left = full && s->n_iter > 1 && s->promise < s->before ? s->promise / s->before : 1;
    s->before = s->promise;
    if (s->promise < 0) return STALLED;
    return s->promise < goal && s->promise * left < LEFT * goal ? CONVERGED : -1;
}

/* Minimise for the draws first, ..., last - 1, from start (d, B). The penalty is
   theta' ridge theta / 2 - pull' theta, and inverse (d, d) that of the curvature to begin with.
   theta (d, B), n_iter, status, decrement and residual (B,) are written. `work` holds
   (2 n + (7 + d) d) LANES numbers. */
ENTRY(minimise)(
    int64_t law, int64_t n, int64_t d, int64_t m, const double *z, const double *offset,
    const double *trials, const int64_t *row, const double *y, const double *p, int64_t by_cell,
    int64_t by_draw, int64_t n_draws, int64_t first, int64_t last, const double *start,
    const double *ridge, const double *pull, const double *inverse, double goal, int64_t most_steps,
    double *theta, int64_t *n_iter, int64_t *status, double *decrement, double *residual,
    double *work)
{
    const Tables tables = {law, n, d, m, by_cell, by_draw, z, offset, trials, y, p, row};
    double *total = work, *outcomes = total + n * LANES, *trial = outcomes + n * LANES;
    double *slopes = trial + d * LANES, *next = slopes + d * LANES;
    const Rows rows = {law, n, d, z, offset, total, outcomes};
    Search lanes[LANES];
    int64_t waiting = first, open = 0;
    memset(work, 0, sizeof(double) * (2 * n + d) * LANES);
    for (int lane = 0; lane < LANES; lane++) {
        Search *s = lanes + lane;
        s->draw = -1;
        s->theta = next;
        s->step = s->theta + d;
        s->grad = s->step + d;
        s->change = s->grad + d;
        s->image = s->change + d;
        s->inverse = s->image + d;
        next = s->inverse + d * d;
    }
    for (;;) {
        for (int lane = 0; lane < LANES; lane++) {
            Search *s = lanes + lane;
            if (s->draw < 0 && waiting < last) {
                s->draw = waiting++;
                open++;
                put_draw(&tables, s->draw, lane, total, outcomes);
                for (int64_t j = 0; j < d; j++) s->theta[j] = start[j * n_draws + s->draw];
                memcpy(s->inverse, inverse, sizeof(double) * d * d);
                memset(s->step, 0, sizeof(double) * d);
                memset(s->grad, 0, sizeof(double) * d);
                s->n_iter = 0;
                s->length = 0;
                s->promise = s->before = 0;
            }
            for (int64_t j = 0; s->draw >= 0 && j < d; j++)
                trial[j * LANES + lane] = s->theta[j] + s->length * s->step[j];
        }
        if (!open) return;
        slope(&rows, trial, slopes);
        for (int lane = 0; lane < LANES; lane++) {
            Search *s = lanes + lane;
            if (s->draw < 0) continue;
            double *at = s->image, *grad = s->change;
            for (int64_t j = 0; j < d; j++) at[j] = trial[j * LANES + lane];
            times(d, ridge, at, grad);
            for (int64_t j = 0; j < d; j++) at[j] = grad[j] + slopes[j * LANES + lane] - pull[j];
            int64_t how = proceed(s, d, at, goal);
            if (how < 0 && s->n_iter >= most_steps) how = OUT_OF_STEPS;
            if (how < 0) continue;
            double worst = 0;
            for (int64_t j = 0; j < d; j++) {
                double size = s->grad[j] < 0 ? -s->grad[j] : s->grad[j];
                if (size > worst) worst = size;
                /* The last step is too short to be worth an evaluation, but not to be taken. */
                theta[j * n_draws + s->draw] = s->theta[j] + (how == CONVERGED ? s->step[j] : 0);
            }
            n_iter[s->draw] = s->n_iter;
            status[s->draw] = how;
            decrement[s->draw] = s->promise;
            residual[s->draw] = worst;
            s->draw = -1;
            open--;
        }
    }
}
