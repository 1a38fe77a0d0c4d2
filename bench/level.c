/* SPDX-License-Identifier: Apache-2.0 */
#include "level.h"
#include "program.h"
#include "table.h"

/* Short enough for a table's column. */
static char *row_takes(size_t bytes)
{
    char text[16];
    return nb_format("a row takes %s", nb_bytes_text((double)bytes, text));
}

static size_t rows_within(size_t target, size_t fixed_bytes, size_t row_bytes)
{
    return target > fixed_bytes ? (target - fixed_bytes) / row_bytes : 0;
}

static size_t rows_in_cache(size_t cache_bytes, size_t target, size_t fixed_bytes, size_t row_bytes,
                            char **reason)
{
    const size_t rows = rows_within(target, fixed_bytes, row_bytes);
    if (rows)
        return rows;
    const size_t one = fixed_bytes + row_bytes;
    if (one <= cache_bytes / 10 * 9)
        return 1;
    *reason = row_takes(one);
    return 0;
}

/* L2 goes by physical addresses: of small pages, wherever the system found them, some
 * of its sets get twice as many as others, and overflow when it is half full. What else
 * lies in them is then pushed out, the code of one of two equal kernels, say. */
static size_t l2_target(size_t l1, size_t l2)
{
    const size_t target = l2 / 4 > 2 * l1 ? l2 / 4 : 2 * l1;
    return target < l2 / 2 ? target : l2 / 2;
}

static size_t rows_in_l3(size_t l2, size_t l3, size_t fixed_bytes, size_t row_bytes, char **reason)
{
    size_t target = l3 / 4 > 2 * l2 ? l3 / 4 : 2 * l2;
    if (l2 && target > 8 * l2) /* hundreds of MB would only take longer */
        target = 8 * l2;
    if (target > l3 / 2) {
        *reason = nb_duplicate("L3 < 4 x L2");
        return 0;
    }
    const size_t rows = rows_within(target, fixed_bytes, row_bytes);
    if (!rows)
        *reason = row_takes(fixed_bytes + row_bytes);
    return rows;
}

static size_t rows_in_memory(size_t available, size_t llc, size_t fixed_bytes, size_t row_bytes,
                             char **reason)
{
    const size_t one = fixed_bytes + row_bytes, target = 3 * llc > one ? 3 * llc : one;
    if (available && target > available / 2) {
        *reason = nb_duplicate("too little memory");
        return 0;
    }
    const size_t rows = rows_within(target, fixed_bytes, row_bytes);
    return rows ? rows : 1;
}

size_t nb_level_rows(const nb_topology *t, enum nb_level level, size_t threads, size_t fixed_bytes,
                     size_t row_bytes, char **reason)
{
    *reason = NULL;
    const size_t llc = nb_topology_llc_share(t, threads);
    const size_t cache = level == NB_MEMORY ? llc : nb_topology_share(t, (int)level, threads);
    if (!cache) {
        *reason = level == NB_L3 && llc ? nb_duplicate("there is no L3")
                                        : nb_duplicate("its size is unknown");
        return 0;
    }
    const size_t l1 = nb_topology_share(t, NB_CACHE_L1D, threads);
    const size_t l2 = nb_topology_share(t, NB_CACHE_L2, threads);
    switch (level) {
    case NB_L2:
        return rows_in_cache(cache, l2_target(l1, l2), fixed_bytes, row_bytes, reason);
    case NB_L3:
        return rows_in_l3(l2, cache, fixed_bytes, row_bytes, reason);
    case NB_MEMORY:
        return rows_in_memory(t->memory_available_bytes / threads, cache, fixed_bytes, row_bytes,
                              reason);
    default:
        return rows_in_cache(cache, cache / 2, fixed_bytes, row_bytes, reason);
    }
}

int nb_level_of(const nb_topology *t, size_t threads, size_t bytes)
{
    bool known = false;
    for (int i = 0; i < NB_CACHES; i++) {
        const size_t cache = nb_topology_share(t, i, threads);
        known = known || cache;
        if (bytes <= cache / 10 * 9)
            return i; /* NB_L1 ... are in the order of NB_CACHE_L1D ... */
    }
    return known ? NB_MEMORY : -1;
}
