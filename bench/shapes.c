/* SPDX-License-Identifier: Apache-2.0 */
#include "shapes.h"
#include "level.h"
#include "models.h"
#include "program.h"
#include "stage.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_UNKNOWN = 32, SETS_AT_MOST = 1 << 14 };
enum { BEYOND_ANY_CACHE = 256 << 20 }; /* bytes to rotate over where the caches are unknown */

/* ---- What the options leave open ---------------------------------------- */

static nb_sizes copy_sizes(const nb_sizes *from)
{
    nb_sizes to = {0};
    for (size_t i = 0; i < from->count; i++)
        nb_sizes_add(&to, from->items[i]);
    return to;
}

/* Of bert-base, gpt2-xl, gemma-2-2b, qwen2.5-7b, llama-2-7b and llama-2-70b: the
 * sweep of a program that knows many models stays short. */
static const size_t usual_hidden[] = {768, 1600, 2304, 3584, 4096, 8192};

static nb_sizes hidden_sizes(const nb_options *options)
{
    const size_t count = sizeof usual_hidden / sizeof usual_hidden[0];
    nb_sizes sizes = copy_sizes(&options->hidden);
    for (size_t i = 0; i < count && options->hidden.count == 0; i++)
        nb_sizes_add(&sizes, usual_hidden[i]);
    return sizes;
}

/* The model that was asked for and has this hidden size. */
static const nb_model *model_of(const nb_options *options, size_t hidden)
{
    for (size_t i = 0; i < options->model.count; i++) {
        const nb_model *model = nb_model_find(options->model.items[i]);
        if (model->hidden == hidden)
            return model;
    }
    return NULL;
}

/* Whether so many threads get a core and its time each. */
static int check_threads(const nb_options *options, const nb_topology *t, size_t threads)
{
    const size_t fit = nb_topology_threads(t);
    if (threads > NB_MOST_THREADS)
        return nb_fail(NB_USAGE, "--threads %zu: at most %d", threads, NB_MOST_THREADS);
    if (threads <= fit || threads == 1 || options->oversubscribe)
        return NB_OK;
    char *there = t->quota_cpus > 0 && t->quota_cpus < (double)t->place_count
                      ? nb_format("the CPU quota grants %.3g CPUs", t->quota_cpus)
                      : nb_format("%zu core%s may be used", fit, fit > 1 ? "s" : "");
    const int status = nb_fail(
        NB_MACHINE, "--threads %zu: %s; --threads all takes %zu, --oversubscribe allows more",
        threads, there, fit);
    free(there);
    return status;
}

static int thread_counts(const nb_options *options, const nb_topology *t, nb_sizes *counts)
{
    int status = NB_OK;
    for (size_t i = 0; i < options->threads.count && status == NB_OK; i++) {
        const size_t asked = options->threads.items[i];
        const size_t threads = asked == NB_ALL_THREADS ? nb_topology_threads(t) : asked;
        status = check_threads(options, t, threads);
        nb_sizes_add(counts, threads);
    }
    if (counts->count == 0)
        nb_sizes_add(counts, 1);
    return status;
}

/* ---- One shape ---------------------------------------------------------- */

/* rotate: one set of operands for each norm of the model, or without a model as
 * many as lie well beyond the last-level cache. 0 where they do not fit. */
static size_t count_sets(const nb_topology *t, const nb_model *model, const nb_shape *shape)
{
    const size_t all = nb_stage_bytes(&shape->spec, shape->threads);
    const size_t llc = nb_topology_llc_share(t, shape->threads) * shape->threads;
    const size_t available = t->memory_available_bytes / 2;
    size_t sets = (llc ? 3 * llc : BEYOND_ANY_CACHE) / all + 2;
    sets = model ? model->layers * model->norms : sets < SETS_AT_MOST ? sets : SETS_AT_MOST;
    return available && sets > available / all ? 0 : sets;
}

/* What the shape lacks, as its reason to be skipped. */
static void settle(const nb_topology *t, const nb_model *model, nb_shape *shape)
{
    if (shape->skipped)
        return;
    if (shape->spec.rows < shape->threads) {
        shape->skipped = nb_format("rows < %zu threads", shape->threads);
        return;
    }
    shape->spec.sets = shape->mode == NB_ROTATE ? count_sets(t, model, shape) : 1;
    if (!shape->spec.sets)
        shape->skipped = nb_duplicate("too little memory");
    shape->working_set_bytes = nb_stage_bytes(&shape->spec, shape->threads);
    shape->level = nb_level_of(t, shape->threads, shape->working_set_bytes / shape->threads);
}

static int append(nb_shapes *shapes, const nb_topology *t, const nb_model *model, nb_shape shape)
{
    settle(t, model, &shape);
    if (t->memory_bytes && shape.working_set_bytes > t->memory_bytes)
        return nb_fail(NB_MACHINE, "rows %zu of hidden %zu: the operands exceed the memory here",
                       shape.spec.rows, shape.spec.hidden);
    shapes->items = nb_reallocate(shapes->items, (shapes->count + 1) * sizeof *shapes->items);
    shapes->items[shapes->count++] = shape;
    return NB_OK;
}

static nb_shape at_level(const nb_topology *t, nb_shape shape, enum nb_level level)
{
    nb_workspace_spec one = shape.spec, two = shape.spec;
    one.rows = 1;
    two.rows = 2;
    const size_t bytes = nb_workspace_bytes(&one), row_bytes = nb_workspace_bytes(&two) - bytes;
    shape.spec.rows = shape.threads * nb_level_rows(t, level, shape.threads, bytes - row_bytes,
                                                    row_bytes, &shape.skipped);
    shape.level = (int)level;
    return shape;
}

/* All rows or levels of one hidden size and mode. */
static int add_rows(nb_shapes *shapes, const nb_options *options, const nb_topology *t,
                    const nb_model *model, nb_shape shape)
{
    int status = nb_shape_check(2, shape.spec.hidden);
    if (status != NB_OK)
        return status;
    nb_sizes levels = copy_sizes(&options->level), rows = copy_sizes(&options->rows);
    if (levels.count == 0 && rows.count == 0) {
        if (nb_topology_llc_share(t, 1) == 0)
            nb_sizes_add(&rows, ROWS_UNKNOWN);
        else
            for (size_t level = 0; level < NB_LEVELS; level++)
                nb_sizes_add(&levels, level);
    }
    for (size_t i = 0; i < levels.count && status == NB_OK; i++)
        status = append(shapes, t, model, at_level(t, shape, (enum nb_level)levels.items[i]));
    for (size_t i = 0; i < rows.count && status == NB_OK; i++) {
        shape.spec.rows = rows.items[i];
        status = nb_shape_check(shape.spec.rows, shape.spec.hidden);
        if (status == NB_OK)
            status = append(shapes, t, model, shape);
    }
    free(levels.items);
    free(rows.items);
    return status;
}

static int add_hidden(nb_shapes *shapes, const nb_options *options, const nb_topology *t,
                      nb_shape shape, const nb_sizes *modes, const nb_sizes *threads)
{
    const nb_model *model = model_of(options, shape.spec.hidden);
    int status = NB_OK;
    shape.spec.eps = model ? (float)model->eps : 1e-5f;
    shape.spec.gamma_offset = model ? (float)model->gamma_offset : 0.0f;
    for (size_t m = 0; m < modes->count; m++)
        for (size_t n = 0; n < threads->count && status == NB_OK; n++) {
            shape.mode = (enum nb_mode)modes->items[m];
            shape.threads = threads->items[n];
            status = add_rows(shapes, options, t, model, shape);
        }
    return status;
}

int nb_shapes_add(nb_shapes *shapes, const nb_options *options, const nb_topology *t, int op,
                  uint32_t operands, nk_dtype dtype)
{
    nb_sizes hidden = hidden_sizes(options), modes = copy_sizes(&options->mode), threads = {0};
    if (modes.count == 0)
        nb_sizes_add(&modes, NB_HOT);
    int status = thread_counts(options, t, &threads);
    for (size_t h = 0; h < hidden.count && status == NB_OK; h++) {
        const nb_shape shape = {.spec = {.op = op,
                                         .operands = operands,
                                         .dtype = dtype,
                                         .hidden = hidden.items[h],
                                         .kind = NB_ROWS_NORMAL,
                                         .seed = options->seed},
                                .level = -1};
        status = add_hidden(shapes, options, t, shape, &modes, &threads);
    }
    free(hidden.items);
    free(modes.items);
    free(threads.items);
    return status;
}

void nb_shapes_free(nb_shapes *shapes)
{
    for (size_t i = 0; i < shapes->count; i++)
        free(shapes->items[i].skipped);
    free(shapes->items);
    *shapes = (nb_shapes){0};
}

const char *nb_shape_level(const nb_shape *shape)
{
    return shape->level < 0 ? NULL : nb_level_names[shape->level];
}

char *nb_shape_name(const nb_variant *variant, const nb_shape *shape, char name[NB_NAME_BYTES])
{
    nb_cell_name(variant, shape->spec.rows, shape->spec.hidden, name);
    const size_t length = strlen(name);
    if (shape->threads > 1)
        snprintf(name + length, NB_NAME_BYTES - length, "/threads:%zu", shape->threads);
    return name;
}

nb_csv_row nb_shape_row(const nb_variant *variant, const nb_shape *shape)
{
    const nk_kernel *k = variant->kernel;
    const bool f32_params = shape->spec.flags & NK_PARAMS_F32;
    return (nb_csv_row){.provider = variant->provider->label,
                        .kernel = k->op,
                        .algorithm = k->algorithm,
                        .dtype = k->dtype,
                        .param_dtype = f32_params ? nk_dtypes[NK_F32].name : k->dtype,
                        .isa = k->isa,
                        .rows = shape->spec.rows,
                        .hidden = shape->spec.hidden,
                        .threads = shape->threads,
                        .level = nb_shape_level(shape),
                        .mode = nb_mode_names[shape->mode],
                        .working_set_bytes = shape->working_set_bytes,
                        .time_ns = NAN,
                        .bytes = NAN,
                        .flops = NAN,
                        .pair = -1,
                        .slot = -1,
                        .error_ulp = NAN,
                        .status = "ok"};
}
