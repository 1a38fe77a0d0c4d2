/* SPDX-License-Identifier: Apache-2.0 */
#include "counts_csv.h"
#include "csv.h"
#include "program.h"
#include "topology.h"

#include <inttypes.h>
#include <stdlib.h>

void nb_counts_caches(char *text, size_t room)
{
    nb_topology t;
    nb_topology_load(&t);
    char *parts = NULL;
    static const char *const names[NB_CACHES] = {"L1d", "L2", "L3"};
    for (int i = 0; i < NB_CACHES; i++) {
        char *part = t.caches[i].bytes ? nb_format("%s %zu", names[i], t.caches[i].bytes)
                                       : nb_format("%s unknown", names[i]);
        parts = nb_join(parts, " ", part);
        free(part);
    }
    snprintf(text, room, "%s", parts);
    free(parts);
}

static int flush(const nb_counts_csv *csv)
{
    if (fflush(csv->file) == 0 && !ferror(csv->file))
        return NB_OK;
    return nb_fail(NB_MACHINE, "cannot write %s: %m", csv->path);
}

int nb_counts_csv_open(nb_counts_csv *csv, const char *path, bool force)
{
    *csv = (nb_counts_csv){.path = path, .file = nb_output_open(path, force)};
    if (!csv->file)
        return NB_USAGE;
    nb_counts_caches(csv->caches, sizeof csv->caches);
    fputs("provider,build,caches,kernel,algorithm,dtype,isa,rows,hidden,instructions", csv->file);
    for (int i = 0; i < NB_CLASSES; i++)
        fprintf(csv->file, ",%s", nb_class_names[i]);
    fputs(",lanes,flops,loads,load_bytes,stores,store_bytes,prefetches\r\n", csv->file);
    return flush(csv);
}

int nb_counts_csv_write(nb_counts_csv *csv, const nb_variant *variant, size_t rows, size_t hidden,
                        const nb_counts *n)
{
    FILE *f = csv->file;
    const nk_kernel *k = variant->kernel;
    const nk_provider *p = variant->provider->table;
    const char *const texts[] = {p->name,      p->build, csv->caches, k->op,
                                 k->algorithm, k->dtype, k->isa};
    const uint64_t rest[] = {n->lanes,  n->flops,       n->loads,     n->load_bytes,
                             n->stores, n->store_bytes, n->prefetches};
    if (!f)
        return NB_OK;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        nb_csv_text(f, texts[i]);
        fputc(',', f);
    }
    fprintf(f, "%zu,%zu,%" PRIu64, rows, hidden, n->instructions);
    for (int i = 0; i < NB_CLASSES; i++)
        fprintf(f, ",%" PRIu64, n->classes[i]);
    for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++)
        fprintf(f, ",%" PRIu64, rest[i]);
    fputs("\r\n", f);
    return flush(csv);
}

int nb_counts_csv_close(nb_counts_csv *csv)
{
    const int status = csv->file ? nb_output_close(csv->file, csv->path) : NB_OK;
    csv->file = NULL;
    return status;
}
