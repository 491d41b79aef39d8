/* Total variation between the masses of units, for a block of draws: masses, gradient, curvature.

   An atom is an x row with its mass. It has slots, the outcomes (or bins of them) that are compared;
   a slot is a sum over nodes, outcomes with a weight, and belongs to one or more units. The formulas
   are those of `objective/_units.py` and `objective/divergences.py`. */

#define NV 2
#define NB (NV * LANES)
#define EACH _Pragma("GCC unroll 2") for (int v = 0; v < NV; v++)
#define AT(p, i) ((p) + (int64_t)(i) * NB + v * LANES)
#define INLINE static inline __attribute__((always_inline))

/* Laws. The first three are of one outcome that stands for both; the others list theirs. The last has
   a log dispersion, the same in all rows: its last parameter, whose column of z is 0. */
enum { TAIL_LOGIT, TAIL_PROBIT, TAIL_CLOGLOG, SUCCESSES_LOGIT, SUCCESSES_CLOGLOG, COUNTS, DISPERSED };

/* What does not change from draw to draw. Numbers of 8 bytes, as `objective/_compiled_groups.py` packs them. */
typedef struct {
    int64_t law, folded, curved, n_params, n_atoms, n_units, n_cells, n_outcomes;
    const double *z, *offset, *trials;       /* of atoms: (n_atoms, n_params), (n_atoms,) */
    const int64_t *slot0, *node0, *unit0;    /* where the slots of an atom, nodes and units of a slot begin */
    const double *node;                      /* (n_nodes, 3): outcome, weight, and its factor, 0 for none */
    const double *start;                     /* of nodes without a factor, two each: see `at_node` */
    const int32_t *unit;
    const double *outcome;                   /* the distinct ones, and that of each node; DISPERSED */
    const int32_t *outcome_of_node;
    const int64_t *atom_of_cell, *slot_of_cell; /* -1: the cell is in no slot */
    const double *anchor;                    /* (n_units, n_params) or NULL */
    const double *ridge, *tie, *reference;   /* the penalty: (n_params, n_params), (n_params,) twice */
    const double *reals;                     /* see below */
} Groups;

enum { R_SHARE, R_LINEAR, R_KINK, R_FLOOR, R_ARMIJO, R_SHORTEN, R_SHORTEST, R_LONGEST, R_FULL, R_NARROW, R_HALF_WAY, R_MAX_ITER, R_TAU, R_DECREMENT, R_ROUNDING };

/* What a block of NB draws needs, NB numbers beside each other. */
typedef struct {
    double *weight, *at, *more;              /* of atoms: mass, predictor or derivatives */
    double *data, *whole, *mass, *slope, *bend, *dual; /* of units */
    double *jacobian;                        /* (n_units, n_params), where there is no anchor */
    double *theta, *trial, *step, *found, *grad, *hess, *factor, *pivot;
    double *table;                           /* of outcomes, three each: see `outcome_terms` */
    double *lane;                            /* numbers of each lane, see `search` */
} Block;

enum { LANE_NUMBERS = 16 };

static int64_t block_numbers(const Groups *g, Block *b, double *memory)
{
    int64_t used = 0, d = g->n_params;
#define TAKE(name, n) b->name = memory + used; used += (int64_t)(n) * NB
    TAKE(lane, LANE_NUMBERS); TAKE(theta, d); TAKE(trial, d); TAKE(step, d); TAKE(found, d); TAKE(grad, d); TAKE(pivot, d);
    TAKE(hess, d * d); TAKE(factor, d * d);
    TAKE(data, g->n_units); TAKE(whole, g->folded ? g->n_units : 0); TAKE(mass, g->n_units);
    TAKE(slope, g->n_units); TAKE(bend, g->n_units); TAKE(dual, g->n_units);
    TAKE(jacobian, g->anchor ? 0 : g->n_units * d);
    TAKE(weight, g->n_atoms); TAKE(at, g->n_atoms); TAKE(more, g->n_atoms); TAKE(table, 3 * g->n_outcomes);
#undef TAKE
    return used;
}

/* Probability of a success with two derivatives in eta. */
INLINE void tail(int law, V eta, V *p, V *first, V *second)
{
    if (law == TAIL_LOGIT) {
        V odds = vexp(smaller(-eta, all(700.0)));
        *p = 1.0 / (1.0 + odds);
        V rest = odds * *p;
        *first = *p * rest;
        *second = *first * (rest - *p);
    } else if (law == TAIL_PROBIT) {
        V bell = vexp(-0.5 * eta * eta), less = 0.5 * bell * verfcx(vabs(eta) * 0.70710678118654752440);
        *p = pick(below(eta, all(0.0)), less, 1.0 - less);
        *first = 0.39894228040143267794 * bell;
        *second = -eta * *first;
    } else {
        V hazard = vexp(smaller(eta, all(150.0)));
        *p = -vexpm1(-hazard);
        *first = hazard * vexp(-hazard);
        *second = *first * (1.0 - hazard);
    }
}

/* The law at one x row: score a + b y, curvature of the log pmf c + d y, and what `at_node` needs. In
   the log dispersion the score is P + own - share y, with curvature Q + own_2 + d y, and mixed + d y. */
typedef struct { V x, k, a, b, c, d, share, own, own_2, mixed; } Row;

INLINE void at_row(int law, V eta, V u, double trials, Row *r)
{
    if (law == DISPERSED) {
        const Dispersed at = at_dispersion(u, eta);
        r->x = at.log_mean - at.log_total; r->k = at.level; r->share = at.share;
        r->b = at.rest; r->a = -at.mean * at.rest; r->c = r->a * at.rest; r->d = -at.share * at.rest;
        r->own = at.own; r->mixed = -r->a * at.share; r->own_2 = r->mixed - at.own;
        return;
    }
    if (law == COUNTS) {
        V rate = vexp(smaller(eta, all(300.0)));
        r->x = eta; r->k = rate; r->a = -rate; r->b = all(1.0); r->c = -rate; r->d = all(0.0);
        return;
    }
    V yes, yes_1, yes_2, no, no_1, no_2;
    if (law == SUCCESSES_LOGIT) {
        V small = vexp(-vabs(eta)), large = 1.0 / (1.0 + small), less = small * large, soft = vlog1p(small);
        VI down = below(eta, all(0.0));
        yes = smaller(eta, all(0.0)) - soft; no = -larger(eta, all(0.0)) - soft;
        yes_1 = pick(down, large, less); no_1 = -pick(down, less, large);
        yes_2 = no_2 = -large * less;
    } else {
        V hazard = vexp(smaller(eta, all(150.0))), prob = -vexpm1(-hazard);
        VI seen = below(all(1e-300), hazard);
        yes = pick(seen, vlog(larger(prob, all(1e-300))), eta);
        yes_1 = pick(seen, hazard / larger(vexpm1(hazard), all(1e-300)), all(1.0));
        yes_2 = yes_1 * (1.0 - hazard - yes_1);
        no = no_1 = no_2 = -hazard;
    }
    r->x = yes; r->k = no; r->a = trials * no_1; r->b = yes_1 - no_1; r->c = trials * no_2; r->d = yes_2 - no_2;
}

/* The pmf at a node, from that at the node before where it has a factor. Factors are given along
   short runs only: the pmf of a run's first outcome may be 0 where a later one is not, but is then
   far from it. */
INLINE V at_node(int law, const double *node, const double *start, double trials, const Row *r, V before, const double *table)
{
    double y = node[0];
    if (law == COUNTS && node[2] != 0.0) return before * (r->k * node[2]);
    if (law == COUNTS) return vexp(y * (r->x - start[0]) - (r->k - start[1]));
    if (law == DISPERSED && node[2] != 0.0) return before * (r->share * (1.0 - node[2]) - r->a * node[2]);
    if (law == DISPERSED) return vexp(load(table) + (y * (r->x - start[0]) - (r->k - start[1])));
    return vexp(start[1] + (y * r->x + (trials - y) * r->k));
}

/* Into these units. */
INLINE void add_to_units(const int32_t *unit, const int32_t *end, const V *m, double *mass)
{
    for (; unit < end; unit++) EACH { double *u = AT(mass, *unit); store(u, load(u) + m[v]); }
}

INLINE void predictor(const Groups *g, int64_t i, const double *theta, V *eta)
{
    const double *z = g->z + i * g->n_params;
    const double offset = g->offset[i];
    EACH eta[v] = z[0] * load(AT(theta, 0));
    for (int64_t j = 1; j < g->n_params; j++) EACH eta[v] += z[j] * load(AT(theta, j));
    EACH eta[v] += offset;
}

/* What `outcome_terms` says of a node. */
#define TABLE_OF(q) (law == DISPERSED ? AT(b->table, 3 * g->outcome_of_node[q]) : NULL)

INLINE V dispersion_at(int law, const Groups *g, const double *theta, int v)
{
    return law == DISPERSED ? dispersion(load(AT(theta, g->n_params - 1))) : all(0.0);
}

/* Model masses of the units at theta. */
INLINE void forward_of(int law, const Groups *g, const Block *b, const double *theta)
{
    V u[NV];
    const int64_t *slot0 = g->slot0, *node0 = g->node0, *unit0 = g->unit0;
    const int32_t *unit = g->unit;
    const double *start = g->start, *weight = b->weight;
    double *mass = b->mass, *at = b->at;
    memset(mass, 0, sizeof(double) * (size_t)(g->n_units * NB));
    EACH u[v] = dispersion_at(law, g, theta, v);
    if (law == DISPERSED) EACH outcome_terms(load(AT(theta, g->n_params - 1)), g->n_outcomes, g->outcome, NB, b->table + v * LANES);
    for (int64_t i = 0; i < g->n_atoms; i++) {
        V eta[NV], m[NV], f[NV];
        Row row[NV];
        predictor(g, i, theta, eta);
        if (law <= TAIL_CLOGLOG) {
            EACH {
                V w = load(AT(weight, i)), p, first, second;
                tail(law, eta[v], &p, &first, &second);
                m[v] = w * p;
                store(AT(at, i), w * first);
                if (g->curved) store(AT(b->more, i), w * second);
            }
            add_to_units(unit + unit0[i], unit + unit0[i + 1], m, mass);
            continue;
        }
        const double trials = g->trials[i];
        EACH { store(AT(at, i), eta[v]); at_row(law, eta[v], u[v], trials, &row[v]); f[v] = all(0.0); }
        for (int64_t k = slot0[i]; k < slot0[i + 1]; k++) {
            EACH m[v] = all(0.0);
            for (int64_t q = node0[k]; q < node0[k + 1]; q++) {
                const double *node = g->node + 3 * q;
                EACH { f[v] = at_node(law, node, start, trials, &row[v], f[v], TABLE_OF(q)); m[v] += node[1] * f[v]; }
                start += node[2] == 0.0 ? 2 : 0;
            }
            EACH m[v] *= load(AT(weight, i));
            add_to_units(unit + unit0[k], unit + unit0[k + 1], m, mass);
        }
    }
}

/* Lower triangle of hess += c z z'. */
INLINE void add_square(int64_t d, const double *z, const V *c, double *hess)
{
    for (int64_t i = 0; i < d; i++) {
        V ci[NV];
        EACH ci[v] = z[i] * c[v];
        for (int64_t j = 0; j <= i; j++) EACH { double *h = AT(hess, i * d + j); store(h, load(h) + z[j] * ci[v]); }
    }
}

/* Gradient from the slopes of the units; where there is no anchor also the Jacobian, and where steps are
   curved the second derivatives of the pmf. `at` and `table` are as `forward_of` left them. */
INLINE void backward_of(int law, int curved, const Groups *g, const Block *b)
{
    const int more = law == DISPERSED, with_jacobian = curved || more;
    const int64_t d = g->n_params;
    const int64_t *slot0 = g->slot0, *node0 = g->node0, *unit0 = g->unit0;
    const int32_t *unit = g->unit;
    const double *nodes = g->node, *start = g->start, *weight = b->weight, *slope = b->slope;
    V u[NV], total_own[NV];
    EACH { u[v] = dispersion_at(law, g, b->trial, v); total_own[v] = all(0.0); }
    memset(b->grad, 0, sizeof(double) * (size_t)(d * NB));
    if (with_jacobian) memset(b->jacobian, 0, sizeof(double) * (size_t)(g->n_units * d * NB));
    for (int64_t i = 0; i < g->n_atoms; i++) {
        V eta[NV], f[NV], total[NV], second[NV], mixed[NV], second_own[NV];
        Row row[NV];
        const double *z = g->z + i * d, trials = g->trials[i];
        EACH { eta[v] = load(AT(b->at, i)); total[v] = second[v] = mixed[v] = second_own[v] = f[v] = all(0.0); }
        if (law > TAIL_CLOGLOG) EACH at_row(law, eta[v], u[v], trials, &row[v]);
        for (int64_t k = slot0[i]; k < slot0[i + 1]; k++) {
            V s[NV], first[NV], bent[NV], own[NV], bent_mixed[NV], bent_own[NV];
            EACH own[v] = bent_mixed[v] = bent_own[v] = all(0.0);
            if (law <= TAIL_CLOGLOG) {
                EACH { first[v] = eta[v]; bent[v] = curved ? load(AT(b->more, i)) : all(0.0); }
            } else {
                EACH first[v] = bent[v] = all(0.0);
                for (int64_t q = node0[k]; q < node0[k + 1]; q++) {
                    const double *node = nodes + 3 * q, y = node[0];
                    EACH {
                        const Row *r = row + v;
                        const double *table = TABLE_OF(q);
                        f[v] = at_node(law, node, start, trials, r, f[v], table);
                        V score = r->a + r->b * y, m = node[1] * f[v];
                        first[v] += m * score;
                        if (curved) bent[v] += m * (score * score + (r->c + r->d * y));
                        if (!more) continue;
                        V score_own = load(table + NB) + (r->own - r->share * y);
                        own[v] += m * score_own;
                        if (!curved) continue;
                        bent_mixed[v] += m * (score * score_own + (r->mixed + r->d * y));
                        bent_own[v] += m * (score_own * score_own + (load(table + 2 * NB) + (r->own_2 + r->d * y)));
                    }
                    start += node[2] == 0.0 ? 2 : 0;
                }
                EACH { V w = load(AT(weight, i)); first[v] *= w; bent[v] *= w; own[v] *= w; bent_mixed[v] *= w; bent_own[v] *= w; }
            }
            EACH s[v] = all(0.0);
            for (int64_t r = unit0[k]; r < unit0[k + 1]; r++) {
                const int64_t at = unit[r];
                EACH s[v] += load(AT(slope, at));
                if (!with_jacobian) continue;
                for (int64_t j = 0; j < d; j++)
                    EACH { double *p = AT(b->jacobian, at * d + j); store(p, load(p) + z[j] * first[v]); }
                if (more) EACH { double *p = AT(b->jacobian, at * d + d - 1); store(p, load(p) + own[v]); }
            }
            EACH {
                total[v] += s[v] * first[v];
                if (curved) second[v] += s[v] * bent[v];
                if (more) total_own[v] += s[v] * own[v];
                if (more && curved) { mixed[v] += s[v] * bent_mixed[v]; second_own[v] += s[v] * bent_own[v]; }
            }
        }
        for (int64_t j = 0; j < d; j++) EACH { double *p = AT(b->grad, j); store(p, load(p) + z[j] * total[v]); }
        if (curved) add_square(d, z, second, b->hess);
        for (int64_t j = 0; curved && more && j < d; j++)
            EACH { double *h = AT(b->hess, (d - 1) * d + j); store(h, load(h) + (j < d - 1 ? z[j] * mixed[v] : second_own[v])); }
    }
    if (more) EACH store(AT(b->grad, d - 1), total_own[v]);
}

#define EVERY_LAW(work, ...) \
    switch (g->law) { \
    case TAIL_LOGIT: work(TAIL_LOGIT, __VA_ARGS__); break; \
    case TAIL_PROBIT: work(TAIL_PROBIT, __VA_ARGS__); break; \
    case TAIL_CLOGLOG: work(TAIL_CLOGLOG, __VA_ARGS__); break; \
    case SUCCESSES_LOGIT: work(SUCCESSES_LOGIT, __VA_ARGS__); break; \
    case SUCCESSES_CLOGLOG: work(SUCCESSES_CLOGLOG, __VA_ARGS__); break; \
    case DISPERSED: work(DISPERSED, __VA_ARGS__); break; \
    default: work(COUNTS, __VA_ARGS__); \
    }

static void forward(const Groups *g, const Block *b, const double *theta) { EVERY_LAW(forward_of, g, b, theta) }
static void backward(const Groups *g, const Block *b)
{
    if (g->curved) EVERY_LAW(backward_of, 1, g, b)
    else EVERY_LAW(backward_of, 0, g, b)
}

/* The excess r of data over model, as a share of the unit's scale. */
INLINE V excess(const Groups *g, const Block *b, int64_t u, int v, V *scale)
{
    V data = load(AT(b->data, u)), mass = load(AT(b->mass, u));
    *scale = g->folded ? load(AT(b->whole, u)) : data;
    return g->folded ? (data - mass) / *scale : 1.0 - mass / data;
}

INLINE V width(const double *tau, int v) { V t = load(AT(tau, 0)); return larger(t * t, all(1e-100)); }

/* The divergence itself. */
static void measure(const Groups *g, const Block *b, double *exact)
{
    V sum[NV];
    EACH sum[v] = all(0.0);
    for (int64_t u = 0; u < g->n_units; u++)
        EACH {
            V over = load(AT(b->data, u)) - load(AT(b->mass, u));
            if (g->folded) {
                V scale, r = excess(g, b, u, v, &scale);
                over = scale * vsqrt(r * r + 1e-100);
            }
            sum[v] += larger(over, all(0.0));
        }
    EACH store(AT(exact, 0), sum[v]);
}

/* The divergence smoothed at two widths. */
static void totals(const Groups *g, const Block *b, const double *tau, const double *narrow, double *wide_total, double *narrow_total)
{
    const double linear = g->reals[R_LINEAR], kink = g->reals[R_KINK];
    V wide[NV], close[NV], w2[NV], n2[NV];
    EACH { w2[v] = width(tau, v); n2[v] = width(narrow, v); wide[v] = close[v] = all(0.0); }
    for (int64_t u = 0; u < g->n_units; u++)
        EACH {
            V scale, r = excess(g, b, u, v, &scale), r2 = r * r;
            wide[v] += scale * (linear * r + kink * vsqrt(r2 + w2[v]));
            close[v] += scale * (linear * r + kink * vsqrt(r2 + n2[v]));
        }
    EACH { store(AT(wide_total, 0), wide[v]); store(AT(narrow_total, 0), close[v]); }
}

/* Slopes and curvatures of the units, the divergence smoothed at tau, and the part of hess that
   comes from the curvature of the kinks. Where a lane is fresh it has no dual variables yet. */
static void terms(const Groups *g, const Block *b, const double *tau, const double *fresh, double *total)
{
    const double linear = g->reals[R_LINEAR], kink = g->reals[R_KINK];
    const int64_t d = g->n_params;
    V t2[NV], sum[NV], mean[NV];
    EACH { t2[v] = width(tau, v); sum[v] = mean[v] = all(0.0); }
    for (int64_t u = 0; u < g->n_units; u++)
        EACH {
            V scale, r = excess(g, b, u, v, &scale), distance = vsqrt(r * r + t2[v]), sign = r / distance;
            V dual = pick(below(all(0.5), load(AT(fresh, 0))), sign, load(AT(b->dual, u)));
            V bend = (1.0 - dual * sign) / distance / scale * kink;
            sum[v] += scale * (linear * r + kink * distance);
            store(AT(b->slope, u), -linear - kink * sign);
            store(AT(b->bend, u), bend);
            mean[v] += bend;
        }
    EACH { mean[v] *= g->curved ? 0.0 : g->reals[R_FLOOR] / (double)g->n_units; store(AT(total, 0), sum[v]); }
    memset(b->hess, 0, sizeof(double) * (size_t)(d * d * NB));
    backward(g, b);
    for (int64_t u = 0; u < g->n_units; u++) {
        V c[NV];
        EACH c[v] = load(AT(b->bend, u)) + mean[v];
        if (g->anchor) {
            EACH { V m = load(AT(b->mass, u)); c[v] *= m * m; }
            add_square(d, g->anchor + u * d, c, b->hess);
            continue;
        }
        for (int64_t i = 0; i < d; i++) {
            V ci[NV];
            EACH ci[v] = c[v] * load(AT(b->jacobian, u * d + i));
            for (int64_t j = 0; j <= i; j++)
                EACH { double *h = AT(b->hess, i * d + j); store(h, load(h) + ci[v] * load(AT(b->jacobian, u * d + j))); }
        }
    }
}

/* The dual variables after a step, in the lanes that are chosen. */
static void renew_dual(const Groups *g, const Block *b, const double *tau, const double *chosen)
{
    const double kink = g->reals[R_KINK];
    const int64_t d = g->n_params;
    V t2[NV];
    EACH t2[v] = width(tau, v);
    for (int64_t u = 0; u < g->n_units; u++) {
        V change[NV];
        EACH change[v] = all(0.0);
        for (int64_t j = 0; j < d; j++)
            EACH change[v] += (g->anchor ? all(g->anchor[u * d + j]) : load(AT(b->jacobian, u * d + j))) * load(AT(b->step, j));
        EACH {
            V scale, r = excess(g, b, u, v, &scale);
            if (g->anchor) change[v] *= load(AT(b->mass, u));
            V dual = r / vsqrt(r * r + t2[v]) - (load(AT(b->bend, u)) / kink) * change[v];
            dual = larger(smaller(dual, all(1.0)), all(-1.0));
            store(AT(b->dual, u), pick(below(all(0.5), load(AT(chosen, 0))), dual, load(AT(b->dual, u))));
        }
    }
}

/* The penalty at theta: added to the values of the lanes, to gradient and to the lower triangle of hess. */
static void penalty_value(const Groups *g, const double *theta, double *value)
{
    const int64_t d = g->n_params;
    EACH {
        V sum = all(0.0);
        for (int64_t i = 0; i < d; i++) {
            V t = load(AT(theta, i)), away = t - g->reference[i], ridge = all(0.0);
            for (int64_t j = 0; j < d; j++) ridge += g->ridge[i * d + j] * load(AT(theta, j));
            sum += t * ridge + g->tie[i] * away * away;
        }
        store(AT(value, 0), load(AT(value, 0)) + sum);
    }
}

static void penalty_slopes(const Groups *g, const double *theta, double *grad, double *hess)
{
    const int64_t d = g->n_params;
    for (int64_t i = 0; i < d; i++)
        EACH {
            V slope = g->tie[i] * (load(AT(theta, i)) - g->reference[i]);
            for (int64_t j = 0; j < d; j++) slope += g->ridge[i * d + j] * load(AT(theta, j));
            store(AT(grad, i), load(AT(grad, i)) + 2.0 * slope);
            for (int64_t j = 0; j <= i; j++) {
                double *h = AT(hess, i * d + j);
                store(h, load(h) + 2.0 * (g->ridge[i * d + j] + (i == j ? g->tie[i] : 0.0)));
            }
        }
}

/* Columns of p (n_cells, n_draws) from `draw` on, a table each, into so many lanes. */
static void load_lanes(const Groups *g, const Block *b, int first, int lanes, const double *p, int64_t n_draws, int64_t draw)
{
    const double share = g->reals[R_SHARE];
#define LANE(array, i) (array)[(i) * NB + first + l]
#define ALL_LANES for (int l = 0; l < lanes; l++)
    for (int64_t i = 0; i < g->n_atoms; i++) ALL_LANES LANE(b->weight, i) = 0.0;
    for (int64_t u = 0; u < g->n_units; u++) ALL_LANES LANE(b->data, u) = 0.0;
    for (int64_t u = 0; g->folded && u < g->n_units; u++) ALL_LANES LANE(b->whole, u) = 0.0;
    for (int64_t c = 0; c < g->n_cells; c++) {
        const double *mass = p + c * n_draws + draw;
        const int64_t k = g->slot_of_cell[c];
        ALL_LANES LANE(b->weight, g->atom_of_cell[c]) += mass[l];
        for (int64_t r = k < 0 ? 0 : g->unit0[k]; k >= 0 && r < g->unit0[k + 1]; r++) ALL_LANES LANE(b->data, g->unit[r]) += mass[l];
    }
    for (int64_t i = 0; i < g->n_atoms; i++) {
        ALL_LANES LANE(b->weight, i) *= share;
        for (int64_t r = g->unit0[i]; g->folded && r < g->unit0[i + 1]; r++) ALL_LANES LANE(b->whole, g->unit[r]) += LANE(b->weight, i);
    }
    for (int64_t u = 0; u < g->n_units; u++)
        ALL_LANES {
            LANE(b->data, u) = LANE(b->data, u) * share < 1e-100 ? 1e-100 : LANE(b->data, u) * share;
            if (g->folded && LANE(b->whole, u) < 1e-100) LANE(b->whole, u) = 1e-100;
        }
#undef ALL_LANES
#undef LANE
}
