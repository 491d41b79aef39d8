/* Minimise minus the weighted log-likelihood plus a quadratic penalty: quasi-Newton steps (BFGS).

   Every draw begins with the inverse of the curvature of the mean of all tables, which hardly differs
   from its own; what differs is learned from its gradients. So no curvature is ever computed: a step
   costs one pass for a gradient. The problem is convex: along a step the slope only rises, and a step
   that takes it too far above 0 is shortened. LANES draws are searched side by side; as they take
   five to seven passes, putting new draws in place of finished ones costs more than it saves.

   Nocedal, J. and Wright, S. J. (2006). Numerical Optimization, 2nd ed., chapter 6. */

/* A slope at the end of a step, as a share of that at its beginning, above which it was too long. */
#define TOO_FAR 0.5
/* Longest entry of a step, and shortest share of a step, as in `Newton`. */
#define LONGEST 5.0
#define SHORTEST 1e-5
/* What the step beyond the last evaluation must promise to leave, as a share of the goal. */
#define LEFT 1e-8

enum { OPEN = -1, CONVERGED = 0, STALLED = 1, OUT_OF_STEPS = 2 };

/* The search of one draw. */
typedef struct {
    int64_t n_iter;
    double length, promise, before;
    double *theta, *step, *grad, *change, *image, *inverse;
} Search;

static double dot(int64_t d, const double *a, const double *b) { double sum = 0; for (int64_t j = 0; j < d; j++) sum += a[j] * b[j]; return sum; }
static void times(int64_t d, const double *matrix, const double *a, double *out) { for (int64_t i = 0; i < d; i++) out[i] = dot(d, matrix + i * d, a); }

/* A new step from theta; its promise is twice the decrease that the quadratic model promises. */
static void aim(Search *s, int64_t d)
{
    double most = 0;
    times(d, s->inverse, s->grad, s->step);
    for (int64_t j = 0; j < d; j++) {
        s->step[j] = -s->step[j];
        most = largest(most, size_of(s->step[j]));
    }
    for (int64_t j = 0; most > LONGEST && j < d; j++) s->step[j] *= LONGEST / most;
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
            double entry = s->inverse[i * d + j] + factor * (a * b) - (s->image[i] * b + a * s->image[j]) / along;
            s->inverse[i * d + j] = s->inverse[j * d + i] = entry;
        }
}

/* Begin with draw b. */
static int64_t begin(Search *s, int64_t d, int64_t n_draws, const double *start, const double *grad, const double *inverse, int64_t b)
{
    for (int64_t j = 0; j < d; j++) {
        s->theta[j] = start[j * n_draws + b];
        s->grad[j] = grad[j * n_draws + b];
    }
    memcpy(s->inverse, inverse, sizeof(double) * d * d);
    aim(s, d);
    s->n_iter = 1;
    s->before = s->promise;
    return s->promise >= 0 ? OPEN : STALLED;
}

/* Go on from the gradient at theta + length * step; whether the search has ended, and how. */
static int64_t proceed(Search *s, int64_t d, const double *grad, double goal)
{
    double end = dot(d, grad, s->step), full = s->length == 1;
    int finite = 1;
    s->n_iter++;
    for (int64_t j = 0; j < d; j++) finite &= is_finite(grad[j]);
    if (!finite || end > TOO_FAR * s->promise) {
        double shorter = finite ? s->promise / (s->promise + end) : 0.1;
        s->length *= shorter < 0.1 ? 0.1 : shorter;
        return s->length < SHORTEST ? STALLED : OPEN;
    }
    for (int64_t j = 0; j < d; j++) {
        s->change[j] = grad[j] - s->grad[j];
        s->grad[j] = grad[j];
        s->theta[j] += s->length * s->step[j];
    }
    learn(s, d);
    aim(s, d);
    /* How much the last step has left of the promise is what this one will leave at most. */
    double left = full && s->promise < s->before ? s->promise / s->before : 1;
    s->before = s->promise;
    if (!(s->promise >= 0)) return STALLED;
    return s->promise < goal && s->promise * left < LEFT * goal ? CONVERGED : OPEN;
}

/* Minimise for the draws first, ..., last - 1, from start (d, B), where the gradient grad (d, B) of
   the whole is known. The penalty is theta' ridge theta / 2 - pull' theta, and inverse (d, d) that of
   the curvature to begin with. theta (d, B), n_iter, status, decrement and residual (B,) are written.
   `work` holds (2 n + 4 n_outcomes + (7 + d) d) LANES numbers. */
ENTRY(minimise)(
    TABLES, int64_t n_draws, int64_t first, int64_t last, const double *start, const double *grad, const double *ridge,
    const double *pull, const double *inverse, double goal, int64_t most_steps, double *theta, int64_t *n_iter,
    int64_t *status, double *decrement, double *residual, double *work)
{
    const Tables tables = {TABLES_GIVEN, WORK};
    double *trial = WORK_LEFT, *slopes = trial + d * LANES, *next = slopes + d * LANES;
    Search lanes[LANES];
    for (int lane = 0; lane < LANES; lane++) {
        lanes[lane] = (Search){.theta = next, .step = next + d, .grad = next + 2 * d, .change = next + 3 * d,
                               .image = next + 4 * d, .inverse = next + 5 * d};
        next += (5 + d) * d;
    }
    for (int64_t b = first; b < last; b += LANES) {
        int64_t how[LANES], open = 0;
        take_draws(&tables, b, last);
        take_theta(d, n_draws, start, b, last, trial);
        for (int lane = 0; lane < LANES; lane++) {
            how[lane] = b + lane < last ? begin(lanes + lane, d, n_draws, start, grad, inverse, b + lane) : STALLED;
            open += how[lane] == OPEN;
        }
        while (open) {
            for (int lane = 0; lane < LANES; lane++) {
                const Search *s = lanes + lane;
                for (int64_t j = 0; how[lane] == OPEN && j < d; j++)
                    trial[j * LANES + lane] = s->theta[j] + s->length * s->step[j];
            }
            slope(&tables, trial, slopes);
            for (int lane = 0; lane < LANES; lane++) {
                Search *s = lanes + lane;
                if (how[lane] != OPEN) continue;
                double *at = s->image, *pulled = s->change;
                for (int64_t j = 0; j < d; j++) at[j] = trial[j * LANES + lane];
                times(d, ridge, at, pulled);
                for (int64_t j = 0; j < d; j++) at[j] = pulled[j] + slopes[j * LANES + lane] - pull[j];
                how[lane] = proceed(s, d, at, goal);
                if (how[lane] == OPEN && s->n_iter >= most_steps) how[lane] = OUT_OF_STEPS;
                open -= how[lane] != OPEN;
            }
        }
        for (int lane = 0; lane < LANES && b + lane < last; lane++) {
            const Search *s = lanes + lane;
            double worst = 0;
            for (int64_t j = 0; j < d; j++) {
                worst = largest(worst, size_of(s->grad[j]));
                /* The last step is too short to be worth an evaluation, but not to be taken. */
                theta[j * n_draws + b + lane] = s->theta[j] + (how[lane] == CONVERGED ? s->step[j] : 0);
            }
            n_iter[b + lane] = s->n_iter;
            status[b + lane] = how[lane];
            decrement[b + lane] = s->promise;
            residual[b + lane] = worst;
        }
    }
}
