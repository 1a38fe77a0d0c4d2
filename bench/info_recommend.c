/* SPDX-License-Identifier: Apache-2.0 */
/* What `info` recommends here: which ISA, which LayerNorm, fused or not, by
 * interleaving them on rows of a common size. */
#include "chain.h"
#include "info.h"
#include "level.h"
#include "paired.h"
#include "program.h"

#include <stdlib.h>
#include <string.h>

enum { HIDDEN = 4096, ROWS_UNKNOWN = 8 };
static const double budget_ns = 0.1e9;
static const double clearly = 0.97; /* of the time: else the usual one stays */

/* ---- Measuring ---------------------------------------------------------- */

static void enter(nb_contest *contest, const char *name)
{
    snprintf(contest->names[contest->count++], sizeof contest->names[0], "%s", name);
}

/* Opens operands for the op, as many rows as lie in L2. */
static int open_operands(const nb_topology *t, int op, bool scratch, nb_stage *stage)
{
    nb_workspace_spec spec = {
        .op = op, .rows = 1, .hidden = HIDDEN, .eps = 1e-5f, .seed = NB_SEED, .scratch = scratch};
    char *reason;
    const size_t row = nb_workspace_bytes(&spec);
    spec.rows = nb_level_rows(t, NB_L2, 1, 0, row, &reason);
    spec.rows = spec.rows ? spec.rows : ROWS_UNKNOWN;
    free(reason);
    int cpu;
    nb_topology_cpus(t, 1, &cpu);
    return nb_stage_open(stage, &spec, &cpu, 1, nb_topology_llc_share(t, 1));
}

static void measure(const nb_participant *participants, nb_contest *contest)
{
    const nb_paired plan = {.participants = participants,
                            .count = contest->count,
                            .pairs = 1,
                            .batch_ns = NB_BATCH_NS,
                            .budget_ns = budget_ns,
                            .now_ns = nb_now_ns};
    static nb_paired_result result;
    nb_paired_measure(&plan, &result);
    for (size_t i = 0; i < contest->count; i++)
        contest->ratio[i] = nb_paired_ratio(&result, i, 0);
}

static int fail_check(const nb_variant *variant, char *wrong)
{
    char name[NB_NAME_BYTES];
    const int status = nb_fail(NB_FAILED, "%s: %s", nb_variant_name(variant, name), wrong);
    free(wrong);
    return status;
}

/* The variants against each other; the first is the usual one. */
static int hold(const nb_topology *t, const nb_variant *const *variants, nb_contest *contest)
{
    nb_stage stage;
    nb_side sides[NB_PARTICIPANTS] = {{0}};
    nb_participant participants[NB_PARTICIPANTS];
    int status = open_operands(t, variants[0]->op, false, &stage);
    for (size_t i = 0; i < contest->count && status == NB_OK; i++) {
        nb_side_init(&sides[i], variants[i], &stage);
        participants[i] = (nb_participant){.run = nb_side_run, .context = &sides[i]};
        char *wrong = nb_side_check(&sides[i]);
        status = wrong ? fail_check(variants[i], wrong) : NB_OK;
    }
    if (status == NB_OK)
        measure(participants, contest);
    for (size_t i = 0; i < contest->count; i++)
        nb_side_free(&sides[i]);
    nb_stage_close(&stage);
    return status;
}

/* ---- The contests ------------------------------------------------------- */

/* rmsnorm on every ISA, the one that the library takes first. */
static int compare_isas(const nb_topology *t, const nb_variants *all, nb_contest *contest)
{
    const nb_variant *entered[NB_PARTICIPANTS];
    for (int isa = NK_ISAS; isa-- > 0 && contest->count < NB_PARTICIPANTS;) {
        const nb_variant *v =
            nb_variant_find(all, "rmsnorm", "default", "f32", nk_isas[isa].name, NULL);
        if (!v)
            continue;
        entered[contest->count] = v;
        enter(contest, nk_isas[isa].name);
    }
    return hold(t, entered, contest);
}

static int compare_algorithms(const nb_topology *t, const nb_variants *all, const char *isa,
                              nb_contest *contest)
{
    const nb_variant *entered[NB_PARTICIPANTS];
    for (size_t i = 0; i < all->count && contest->count < NB_PARTICIPANTS; i++) {
        const nb_variant *v = &all->items[i]; /* default is the first of its op */
        if (v->op != NK_OP_layernorm || strcmp(v->kernel->isa, isa) != 0)
            continue;
        entered[contest->count] = v;
        enter(contest, v->kernel->algorithm);
    }
    return hold(t, entered, contest);
}

static int compare_fusion(const nb_topology *t, const nb_variants *all, const char *isa,
                          nb_contest *contest)
{
    const nb_variant *fused = nb_variant_find(all, "add_rmsnorm", "default", "f32", isa, NULL);
    nb_stage stage;
    nb_side side = {0};
    nb_chain_plan plan;
    nb_chain chain = {0};
    nb_chain_find(fused, &plan);
    enter(contest, "fused");
    enter(contest, "unfused");
    int status = open_operands(t, fused->op, plan.scratch, &stage);
    if (status == NB_OK) {
        nb_side_init(&side, fused, &stage);
        nb_chain_init(&chain, fused, &plan, &stage);
        char *wrong = nb_side_check(&side);
        wrong = wrong ? wrong : nb_chain_check(&chain);
        status = wrong ? fail_check(fused, wrong) : NB_OK;
    }
    const nb_participant both[] = {{.run = nb_side_run, .context = &side},
                                   {.run = nb_chain_run, .context = &chain}};
    if (status == NB_OK)
        measure(both, contest);
    nb_chain_free(&chain);
    nb_side_free(&side);
    nb_chain_plan_free(&plan);
    nb_stage_close(&stage);
    return status;
}

const char *nb_contest_winner(const nb_contest *contest)
{
    size_t best = 0;
    for (size_t i = 1; i < contest->count; i++)
        if (contest->ratio[i] < clearly && contest->ratio[i] < contest->ratio[best])
            best = i;
    return contest->names[best];
}

int nb_info_recommend(const nb_topology *t, const nb_copies *ours, nb_recommendation *r)
{
    char *f32 = "f32";
    const nb_options options = {.dtype = {&f32, 1}};
    nb_variants all;
    *r = (nb_recommendation){0};
    int status = nb_variants_select(&options, &ours->providers, false, &all);
    if (status == NB_OK)
        status = compare_isas(t, &all, &r->isas);
    const char *isa = nb_contest_winner(&r->isas);
    if (status == NB_OK)
        status = compare_algorithms(t, &all, isa, &r->algorithms);
    if (status == NB_OK)
        status = compare_fusion(t, &all, isa, &r->fusion);
    nb_variants_free(&all);
    return status;
}

/* ---- Saying so ---------------------------------------------------------- */

/* "avx512 (times as long: avx2 1.12, scalar 5.40)" */
static char *contest_text(const nb_contest *contest, const char *winner)
{
    double own = 1;
    char *others = NULL;
    for (size_t i = 0; i < contest->count; i++)
        own = strcmp(contest->names[i], winner) == 0 ? contest->ratio[i] : own;
    for (size_t i = 0; i < contest->count; i++) {
        if (strcmp(contest->names[i], winner) == 0)
            continue;
        char *item = nb_format("%s%s %.2f", others ? "" : "times as long: ", contest->names[i],
                               contest->ratio[i] / own);
        others = nb_join(others, ", ", item);
        free(item);
    }
    char *text = others ? nb_format("%s (%s)", winner, others) : nb_duplicate(winner);
    free(others);
    return text;
}

static void print_contest(const char *title, const nb_contest *contest, const char *winner)
{
    char *text = contest_text(contest, winner);
    printf("%-16s%s\n", title, text);
    free(text);
}

void nb_info_print_recommendation(const nb_recommendation *r)
{
    printf("\nrecommended here, as measured now on f32 of hidden %d in L2:\n", HIDDEN);
    print_contest("ISA", &r->isas, nb_contest_winner(&r->isas));
    print_contest("LayerNorm", &r->algorithms, r->algorithms.names[0]);
    printf("%-16sonly default keeps the accuracy promise for every row\n", "");
    print_contest("add and RMSNorm", &r->fusion, nb_contest_winner(&r->fusion));
}

static void add_contest(cJSON *object, const char *name, const nb_contest *contest)
{
    cJSON *times = cJSON_AddObjectToObject(object, name);
    for (size_t i = 0; i < contest->count; i++)
        cJSON_AddNumberToObject(times, contest->names[i], contest->ratio[i]);
}

cJSON *nb_info_recommendation_json(const nb_recommendation *r)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "isa", nb_contest_winner(&r->isas));
    cJSON_AddStringToObject(object, "layernorm", r->algorithms.names[0]);
    cJSON_AddStringToObject(object, "add_rmsnorm", nb_contest_winner(&r->fusion));
    cJSON *times = cJSON_AddObjectToObject(object, "relative_times");
    add_contest(times, "isa", &r->isas);
    add_contest(times, "layernorm", &r->algorithms);
    add_contest(times, "add_rmsnorm", &r->fusion);
    return object;
}
