/* Newton's method on total variation in groups, as in `solvers/newton.py`: each lane searches for one
   draw, and takes the next one when it has ended. */

/* The numbers of a lane, each a row of NB; `draw` is -1 for a lane without one, `ended` its last
   status + 1 where only the value of its end is missing, 0 during the search. */
enum { L_DRAW, L_ENDED, L_FRESH, L_WIDTH, L_NARROW, L_LENGTH, L_BEST, L_PROMISE, L_STEPS, L_TAKEN, L_MERIT, L_CLOSE, L_EXACT, L_TOTAL, L_DEFINITE };
enum { MOST_SWEEPS = 40 };

static double root(double a) { double out[LANES]; store(out, vsqrt(all(a))); return out[0]; }

static void rotate(double *a, double *b, double c, double s)
{
    const double old = *a;
    *a = c * old - s * *b;
    *b = s * old + c * *b;
}

/* H x = g by the eigenvalues of H, of which the sizes are taken (Jacobi's method). In memory that
   holds 2 d * d numbers. Large entries are made smaller, as their squares would overflow. */
static void solve_by_eigenvalues(int64_t d, double *h, double *axes, const double *g, double *x, double least)
{
    double most = 0, entry = 0;
    for (int64_t k = 0; k < d * d; k++) entry = largest(entry, size_of(h[k]));
    const double scale = entry > 1e100 ? 1e-200 : 1;
    for (int64_t k = 0; k < d * d; k++) h[k] *= scale;
    for (int64_t i = 0; i < d; i++)
        for (int64_t j = 0; j < d; j++) axes[i * d + j] = i == j;
    for (int sweep = 0; sweep < MOST_SWEEPS; sweep++) {
        double off = 0, whole = 0;
        for (int64_t k = 0; k < d * d; k++) {
            whole += h[k] * h[k];
            if (k % (d + 1)) off += h[k] * h[k];
        }
        if (!(off > 1e-32 * whole)) break;
        for (int64_t i = 0; i < d; i++)
            for (int64_t j = 0; j < i; j++) {
                double apart = h[i * d + j];
                if (apart == 0) continue;
                double theta = (h[j * d + j] - h[i * d + i]) / (2 * apart);
                double t = (theta < 0 ? -1 : 1) / (size_of(theta) + root(theta * theta + 1));
                double c = 1 / root(t * t + 1), s = t * c;
                for (int64_t k = 0; k < d; k++) rotate(h + k * d + i, h + k * d + j, c, s);
                for (int64_t k = 0; k < d; k++) {
                    rotate(h + i * d + k, h + j * d + k, c, s);
                    rotate(axes + k * d + i, axes + k * d + j, c, s);
                }
            }
    }
    for (int64_t i = 0; i < d; i++) { most = largest(most, size_of(h[i * d + i])); x[i] = 0; }
    for (int64_t i = 0; i < d; i++) {
        double along = 0;
        for (int64_t k = 0; k < d; k++) along += axes[k * d + i] * g[k];
        along = along * scale / largest(size_of(h[i * d + i]), least * largest(most, 1e-100));
        for (int64_t k = 0; k < d; k++) x[k] += along * axes[k * d + i];
    }
}

/* step = -H^-1 grad, not too long, where the trial was taken; see `newton.py` and
   `Newton._bounded`. Of hess the lower triangle is given; `own` holds 2 d (d + 1) numbers. */
static void find_steps(const Groups *g, const Block *b, double *own)
{
    const int64_t d = g->n_params;
    double *definite = b->lane + L_DEFINITE * NB;
    EACH {
        V sure = all(1.0);
        for (int64_t i = 0; i < d; i++) store(AT(b->found, i), load(AT(b->grad, i)));
        for (int64_t j = 0; j < d; j++) {
            V pivot = all(0.0), least = 1e-10 * larger(vabs(load(AT(b->hess, j * d + j))), all(1e-100));
            for (int64_t i = j; i < d; i++) {
                V entry = load(AT(b->hess, i * d + j));
                for (int64_t k = 0; k < j; k++)
                    entry = entry - load(AT(b->factor, i * d + k)) * (load(AT(b->pivot, k)) * load(AT(b->factor, j * d + k)));
                if (i == j) {
                    sure = pick(below(entry, least), all(0.0), sure);
                    sure = pick(below(all(-1e300), entry), sure, all(0.0));
                    pivot = larger(entry, least);
                    store(AT(b->pivot, j), pivot);
                }
                store(AT(b->factor, i * d + j), entry / pivot);
            }
            for (int64_t i = j + 1; i < d; i++)
                store(AT(b->found, i), load(AT(b->found, i)) - load(AT(b->factor, i * d + j)) * load(AT(b->found, j)));
        }
        for (int64_t j = 0; j < d; j++) store(AT(b->found, j), load(AT(b->found, j)) / load(AT(b->pivot, j)));
        for (int64_t j = d - 1; j > 0; j--)
            for (int64_t i = 0; i < j; i++)
                store(AT(b->found, i), load(AT(b->found, i)) - load(AT(b->factor, j * d + i)) * load(AT(b->found, j)));
        store(AT(definite, 0), sure);
    }
    for (int l = 0; l < NB; l++) {
        double most = 0;
        int lost = 0;
        if (b->lane[L_TAKEN * NB + l] == 0) continue;
        if (definite[l] == 0) {
            double *h = own, *axes = h + d * d, *grad = axes + d * d, *x = grad + d;
            for (int64_t i = 0; i < d; i++) grad[i] = b->grad[i * NB + l];
            for (int64_t i = 0; i < d; i++)
                for (int64_t j = 0; j <= i; j++) {
                    h[i * d + j] = h[j * d + i] = b->hess[(i * d + j) * NB + l];
                    lost |= !is_finite(h[i * d + j]);
                }
            if (!lost) solve_by_eigenvalues(d, h, axes, grad, x, 1e-10);
            for (int64_t i = 0; i < d; i++) b->found[i * NB + l] = x[i];
        }
        for (int64_t i = 0; i < d; i++) lost |= !is_finite(b->found[i * NB + l]);
        for (int64_t i = 0; i < d; i++) {
            const double down = b->grad[i * NB + l], way = is_finite(down) ? down : down > 0 ? 1 : down < 0 ? -1 : 0;
            b->step[i * NB + l] = lost ? way : b->found[i * NB + l];
            most = largest(most, size_of(b->step[i * NB + l]));
        }
        /* Along the gradient a step is at most 1. */
        const double shorter = lost ? largest(most, 1) : 1, share = g->reals[R_LONGEST] / largest(most / shorter, 1e-300);
        for (int64_t i = 0; i < d; i++) b->step[i * NB + l] *= -(share < 1 ? share : 1) / shorter;
    }
}

/* What is known of each draw, (d, B) and (B,); `value` is with the penalty, `exact` without. */
typedef struct { double *theta, *value, *exact, *decrement, *residual; int64_t *status, *n_iter; } Ends;

/* The merits of the trial points are known: which are taken, and with which width they go on. */
static int judge(const Groups *g, const Block *b, const Ends *e, int64_t n_draws)
{
    const double *real = g->reals;
    const int64_t d = g->n_params;
    double *lane = b->lane;
    int any = 0;
    for (int l = 0; l < NB; l++) {
        double *x = lane + l;
        const int64_t draw = (int64_t)x[L_DRAW * NB];
        x[L_TAKEN * NB] = 0;
        if (draw < 0) continue;
        if (x[L_ENDED * NB] > 0) {
            e->exact[draw] = x[L_EXACT * NB];
            e->value[draw] = x[L_TOTAL * NB];
            e->status[draw] = (int64_t)x[L_ENDED * NB] - 1;
            for (int64_t i = 0; i < d; i++) e->theta[i * n_draws + draw] = b->trial[i * NB + l];
            x[L_DRAW * NB] = -1;
            continue;
        }
        const double best = x[L_BEST * NB], merit = x[L_MERIT * NB], promise = x[L_PROMISE * NB];
        double enough = best - real[R_ARMIJO] * x[L_LENGTH * NB] * promise;
        enough += real[R_ROUNDING] * (1 + size_of(best));
        if (!(merit <= enough)) continue;
        any = 1;
        x[L_TAKEN * NB] = x[L_WIDTH * NB] <= real[R_TAU] ? 2 : 1;
        for (int64_t i = 0; i < d; i++) b->theta[i * NB + l] = b->trial[i * NB + l];
        if (x[L_TAKEN * NB] == 2 || !(x[L_LENGTH * NB] > real[R_FULL])) continue;
        /* See `Newton._narrowed`. */
        const double gain = merit - x[L_CLOSE * NB];
        double factor = promise < 0.1 * gain ? real[R_NARROW] : real[R_HALF_WAY];
        if (promise > gain) factor = 1;
        x[L_WIDTH * NB] = largest(x[L_WIDTH * NB] * factor, real[R_TAU]);
    }
    return any;
}

/* The steps from the points taken are known: go on with each lane, or end its search. */
static void go_on(const Groups *g, const Block *b, const Ends *e)
{
    const double *real = g->reals;
    const int64_t d = g->n_params;
    for (int l = 0; l < NB; l++) {
        double *x = b->lane + l;
        const int64_t draw = (int64_t)x[L_DRAW * NB];
        const int taken = x[L_TAKEN * NB] > 0;
        if (draw < 0) continue;
        /* A width that has just been narrowed to the last one is not yet where the search may end. */
        const int last = taken ? x[L_TAKEN * NB] == 2 : x[L_WIDTH * NB] <= real[R_TAU];
        if (taken) {
            double promise = 0, worst = 0;
            for (int64_t i = 0; i < d; i++) {
                promise -= b->grad[i * NB + l] * b->step[i * NB + l];
                worst = largest(worst, size_of(b->grad[i * NB + l]));
            }
            x[L_PROMISE * NB] = e->decrement[draw] = promise;
            e->residual[draw] = worst;
            x[L_BEST * NB] = x[L_TOTAL * NB];
            x[L_LENGTH * NB] = 1;
            x[L_FRESH * NB] = 0;
        } else x[L_LENGTH * NB] *= real[R_SHORTEN];
        const int stuck = x[L_LENGTH * NB] < real[R_SHORTEST];
        const int flat = taken && x[L_PROMISE * NB] < real[R_DECREMENT];
        double length = 0;
        e->n_iter[draw] = (int64_t)++x[L_STEPS * NB];
        if (flat && last) {
            x[L_ENDED * NB] = CONVERGED + 1;
            /* The last step is too short to be worth an evaluation, but not to be taken. */
            length = 1;
        } else if (stuck && last) x[L_ENDED * NB] = STALLED + 1;
        else if (x[L_STEPS * NB] >= real[R_MAX_ITER]) x[L_ENDED * NB] = OUT_OF_STEPS + 1;
        else if (!last && (stuck || flat)) {
            x[L_WIDTH * NB] = largest(x[L_WIDTH * NB] * real[R_NARROW], real[R_TAU]);
            x[L_LENGTH * NB] = 0;
            x[L_BEST * NB] = 1.0 / 0.0;
        } else length = x[L_LENGTH * NB];
        for (int64_t i = 0; i < d; i++) b->trial[i * NB + l] = b->theta[i * NB + l] + length * b->step[i * NB + l];
    }
}

/* Begin with the next draws where lanes are free; whether a lane is in use. */
static int fill_lanes(const Groups *g, const Block *b, const double *p, int64_t n_draws, const double *start, double begin, int64_t *next)
{
    const int64_t d = g->n_params;
    int used = 0, together = n_draws - *next >= NB;
    for (int l = 0; l < NB; l++) together &= b->lane[L_DRAW * NB + l] < 0;
    if (together) load_lanes(g, b, 0, NB, p, n_draws, *next);
    for (int l = 0; l < NB; l++) {
        double *x = b->lane + l;
        if (x[L_DRAW * NB] < 0 && *next < n_draws) {
            if (!together) load_lanes(g, b, l, 1, p, n_draws, *next);
            for (int64_t i = 0; i < d; i++) {
                b->theta[i * NB + l] = b->trial[i * NB + l] = start[i * n_draws + *next];
                b->step[i * NB + l] = 0;
            }
            for (int k = 0; k < LANE_NUMBERS; k++) x[k * NB] = 0;
            x[L_DRAW * NB] = (double)(*next)++;
            x[L_FRESH * NB] = 1;
            x[L_WIDTH * NB] = begin;
            x[L_BEST * NB] = 1.0 / 0.0;
        }
        x[L_NARROW * NB] = x[L_WIDTH * NB] * g->reals[R_NARROW];
        used |= x[L_DRAW * NB] >= 0;
    }
    return used;
}

static void clear(const Block *b, double *memory, int64_t numbers)
{
    memset(memory, 0, sizeof(double) * (size_t)numbers);
    for (int l = 0; l < NB; l++) b->lane[L_DRAW * NB + l] = -1;
}

/* How many numbers `search_groups` and `measure_groups` need as memory. */
ENTRY(groups_memory)(const Groups *g, int64_t *out)
{
    Block b;
    *out = block_numbers(g, &b, NULL) + 2 * g->n_params * (g->n_params + 1);
}

/* Search for all draws of p (n_cells, n_draws), from start (d, n_draws), smoothed from `begin` on; at
   most so many evaluations, then the same call goes on. next[0] is the next draw and next[1]
   whether the memory is ready, both 0 at first; next[2] becomes 1 at the end. */
ENTRY(search_groups)(const Groups *g, const double *p, int64_t n_draws, const double *start, double begin, int64_t evaluations, int64_t *next, double *theta, double *value, double *exact, double *decrement, double *residual, int64_t *status, int64_t *n_iter, double *memory)
{
    Block b;
    const int64_t numbers = block_numbers(g, &b, memory);
    const Ends ends = {theta, value, exact, decrement, residual, status, n_iter};
    double *lane = b.lane, *total = lane + L_TOTAL * NB;
    if (!next[1]) clear(&b, memory, numbers);
    next[1] = 1;
    for (; evaluations > 0; evaluations--) {
        if (!fill_lanes(g, &b, p, n_draws, start, begin, next)) { next[2] = 1; return; }
        int ending = 0;
        for (int l = 0; l < NB; l++) ending |= lane[L_ENDED * NB + l] > 0;
        forward(g, &b, b.trial);
        totals(g, &b, lane + L_WIDTH * NB, lane + L_NARROW * NB, lane + L_MERIT * NB, lane + L_CLOSE * NB);
        if (ending) measure(g, &b, lane + L_EXACT * NB);
        EACH store(AT(total, 0), load(AT(lane + L_EXACT * NB, 0)));
        penalty_value(g, b.trial, total);
        penalty_value(g, b.trial, lane + L_MERIT * NB);
        penalty_value(g, b.trial, lane + L_CLOSE * NB);
        if (judge(g, &b, &ends, n_draws)) {
            terms(g, &b, lane + L_WIDTH * NB, lane + L_FRESH * NB, total);
            penalty_value(g, b.trial, total);
            penalty_slopes(g, b.trial, b.grad, b.hess);
            find_steps(g, &b, memory + numbers);
            renew_dual(g, &b, lane + L_WIDTH * NB, lane + L_TAKEN * NB);
        }
        go_on(g, &b, &ends);
    }
}

/* The divergence itself, exact (n_points, n_draws): of each draw at its theta (d, n_draws), one point; or at
   points that all draws share, of which the pmf summed to slots (n_slots, n_points) is given. */
ENTRY(measure_groups)(const Groups *g, const double *p, int64_t n_draws, const double *theta, const double *pmf, int64_t n_points, double *exact, double *memory)
{
    Block b;
    clear(&b, memory, block_numbers(g, &b, memory));
    for (int64_t first = 0; first < n_draws; first += NB) {
        const int n = n_draws - first < NB ? (int)(n_draws - first) : NB;
        load_lanes(g, &b, 0, n, p, n_draws, first);
        for (int64_t i = 0; !pmf && i < g->n_params; i++) memcpy(b.trial + i * NB, theta + i * n_draws + first, sizeof(double) * (size_t)n);
        if (!pmf) forward(g, &b, b.trial);
        for (int64_t point = 0; point < n_points; point++) {
            if (pmf) memset(b.mass, 0, sizeof(double) * (size_t)(g->n_units * NB));
            for (int64_t i = 0; pmf && i < g->n_atoms; i++)
                for (int64_t k = g->slot0[i]; k < g->slot0[i + 1]; k++) {
                    V m[NV];
                    EACH m[v] = load(AT(b.weight, i)) * pmf[k * n_points + point];
                    add_to_units(g->unit + g->unit0[k], g->unit + g->unit0[k + 1], m, b.mass);
                }
            measure(g, &b, b.lane);
            memcpy(exact + point * n_draws + first, b.lane, sizeof(double) * (size_t)n);
        }
    }
}

/* One evaluation of up to NB draws, for the tests: masses (n_units, NB), values smoothed at tau
   (NB,), gradient (d, NB), the lower triangle of the curvature (d, d, NB) and the dual variables
   (n_units, NB) after `step`; `dual` are those before, or NULL. */
ENTRY(expand_groups)(const Groups *g, const double *p, int64_t n_draws, const double *theta, const double *tau, const double *dual, const double *step, double *mass, double *total, double *grad, double *hess, double *after, double *memory)
{
    Block b;
    const int64_t d = g->n_params, numbers = block_numbers(g, &b, memory);
    double *fresh = b.lane + L_FRESH * NB, *width_of = b.lane + L_WIDTH * NB, *chosen = b.lane + L_TAKEN * NB;
    clear(&b, memory, numbers);
    for (int l = 0; l < NB; l++) {
        const int64_t draw = l < n_draws ? l : n_draws - 1;
        load_lanes(g, &b, l, 1, p, n_draws, draw);
        fresh[l] = dual == NULL; width_of[l] = tau[draw]; chosen[l] = 1;
        for (int64_t i = 0; i < d; i++) b.trial[i * NB + l] = theta[i * n_draws + draw];
        for (int64_t i = 0; i < d; i++) b.step[i * NB + l] = step[i * n_draws + draw];
        for (int64_t u = 0; dual && u < g->n_units; u++) b.dual[u * NB + l] = dual[u * n_draws + draw];
    }
    forward(g, &b, b.trial);
    terms(g, &b, width_of, fresh, total);
    penalty_value(g, b.trial, total);
    penalty_slopes(g, b.trial, b.grad, b.hess);
    renew_dual(g, &b, width_of, chosen);
    memcpy(mass, b.mass, sizeof(double) * (size_t)(g->n_units * NB));
    memcpy(grad, b.grad, sizeof(double) * (size_t)(d * NB));
    memcpy(hess, b.hess, sizeof(double) * (size_t)(d * d * NB));
    memcpy(after, b.dual, sizeof(double) * (size_t)(g->n_units * NB));
}
