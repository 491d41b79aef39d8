/* The compiled kernel: one file for the compiler, once for each instruction set (build.py).

   Rules: no allocation and no input or output; who calls gives all memory. Arrays are dense, the
   draw is their last axis, and draws are padded to a multiple of `lanes`. */

#include "vector.h"
#include "dispersion.h"
#include "likelihood.h"
#include "search.h"
#include "centres.h"
#include "groups.h"
#include "groups_search.h"

ENTRY(lanes)(int64_t *out) { *out = LANES; }

/* Elementary functions of an array, for the tests: which of them, n numbers (a multiple of LANES). */
ENTRY(elementary)(int64_t which, int64_t n, const double *x, double *out)
{
    V (*const of[])(V) = {vexp, vlog1p, vlog, vsqrt, vexpm1, verfcx};
    for (int64_t i = 0; i + LANES <= n; i += LANES) store(out + i, of[which](load(x + i)));
}

#if defined(COMMON)
/* What does not depend on the instruction set. */
EXPORTED const char *kernel_sources(void) { return SOURCES; }
EXPORTED int64_t kernel_runs(int64_t level)
{
#if defined(__x86_64__) && !defined(SCALAR)
    __builtin_cpu_init();
    if (level == 1) return __builtin_cpu_supports("avx2");
    if (level == 2)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
            && __builtin_cpu_supports("avx512vl");
#endif
    return level == 0;
}
#endif
