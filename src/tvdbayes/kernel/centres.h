/* The nearest of so many centres (a multiple of LANES) for each row of z (n, q): its number, and by how much
   the second is farther off, in half squared distances. Centres are given by column, (q, n_centres), with
   half their squared lengths; those that fill them up have an infinite one. */

ENTRY(nearest)(int64_t n, int64_t q, int64_t n_centres, const double *z, const double *centres, const double *half, int64_t *closest, double *gap)
{
    for (int64_t i = 0; i < n; i += ROWS) {
        V first[ROWS], second[ROWS], at[ROWS], score[ROWS];
        const double *row[ROWS];
        for (int r = 0; r < ROWS; r++) {
            first[r] = second[r] = all(1.0 / 0.0);
            at[r] = all(0.0);
            row[r] = z + (i + r < n ? i + r : n - 1) * q;
        }
        for (int64_t g = 0; g < n_centres; g += LANES) {
            for (int r = 0; r < ROWS; r++) score[r] = load(half + g);
            for (int64_t j = 0; j < q; j++) {
                const V c = load(centres + j * n_centres + g);
                for (int r = 0; r < ROWS; r++) score[r] -= row[r][j] * c;
            }
            for (int r = 0; r < ROWS; r++) {
                const VI nearer = below(score[r], first[r]);
                second[r] = pick(nearer, first[r], smaller(second[r], score[r]));
                first[r] = pick(nearer, score[r], first[r]);
                at[r] = pick(nearer, all((double)g), at[r]);
            }
        }
        for (int r = 0; r < ROWS && i + r < n; r++) {
            double low[LANES], next[LANES], begin[LANES];
            int best = 0;
            store(low, first[r]); store(next, second[r]); store(begin, at[r]);
            for (int l = 1; l < LANES; l++) best = low[l] < low[best] ? l : best;
            double other = next[best];
            for (int l = 0; l < LANES; l++) other = l != best && low[l] < other ? low[l] : other;
            closest[i + r] = (int64_t)begin[best] + best;
            gap[i + r] = other - low[best];
        }
    }
}
