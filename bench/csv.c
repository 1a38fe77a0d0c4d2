/* SPDX-License-Identifier: Apache-2.0 */
#include "csv.h"
#include "program.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static const char header[] =
    "schema,run_id,started_utc,machine,cpu,commit,compiler,provider,kernel,algorithm,dtype,"
    "param_dtype,isa,rows,hidden,threads,level,mode,working_set_bytes,process,repetition,"
    "iterations,time_ns,bytes,flops,pair,slot,error_ulp,status\r\n";

void nb_csv_text(FILE *f, const char *text)
{
    if (!text)
        return;
    fputc('"', f);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', f);
        fputc(*text, f);
    }
    fputc('"', f);
}

static void put_text(FILE *f, const char *text)
{
    fputc(',', f);
    nb_csv_text(f, text);
}

static void put_size(FILE *f, size_t value)
{
    fprintf(f, ",%zu", value);
}

static void put_index(FILE *f, long value)
{
    if (value < 0)
        fputc(',', f);
    else
        fprintf(f, ",%ld", value);
}

static void put_number(FILE *f, double value)
{
    if (isnan(value))
        fputc(',', f);
    else
        fprintf(f, ",%.12g", value);
}

static int flush(nb_csv *csv)
{
    if (fflush(csv->file) == 0 && !ferror(csv->file))
        return NB_OK;
    return nb_fail(NB_MACHINE, "cannot write %s: %s", csv->path, strerror(errno));
}

int nb_csv_open(nb_csv *csv, const char *path, bool force, const nb_csv_run *run)
{
    csv->run = *run;
    csv->path = path;
    csv->file = nb_output_open(path, force);
    if (!csv->file)
        return NB_USAGE;
    fputs(header, csv->file);
    return flush(csv);
}

int nb_csv_write(nb_csv *csv, const nb_csv_row *row)
{
    FILE *f = csv->file;
    if (!f)
        return NB_OK;
    fprintf(f, "%d", NB_CSV_SCHEMA);
    const char *const texts[] = {
        csv->run.run_id, csv->run.started_utc, csv->run.machine, csv->run.cpu,
        csv->run.commit, csv->run.compiler,    row->provider,    row->kernel,
        row->algorithm,  row->dtype,           row->param_dtype, row->isa,
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        put_text(f, texts[i]);
    put_size(f, row->rows);
    put_size(f, row->hidden);
    put_size(f, row->threads);
    put_text(f, row->level);
    put_text(f, row->mode);
    put_size(f, row->working_set_bytes);
    put_size(f, row->process);
    put_size(f, row->repetition);
    put_number(f, row->iterations ? (double)row->iterations : NAN);
    put_number(f, row->time_ns);
    put_number(f, row->bytes);
    put_number(f, row->flops);
    put_index(f, row->pair);
    put_index(f, row->slot);
    put_number(f, row->error_ulp);
    put_text(f, row->status);
    fputs("\r\n", f);
    return flush(csv);
}

int nb_csv_close(nb_csv *csv)
{
    if (!csv->file)
        return NB_OK;
    FILE *file = csv->file;
    csv->file = NULL;
    return nb_output_close(file, csv->path);
}
