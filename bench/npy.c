/* SPDX-License-Identifier: Apache-2.0 */
#include "npy.h"
#include "program.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "npy.c copies little-endian elements as they are"
#endif

/* Magic, version 1, and the header's length in two bytes. */
#define MAGIC "\x93NUMPY"
enum { MAGIC_BYTES = 6, PREFIX_BYTES = 10, ALIGNMENT = 64, HEADER_LIMIT = 1 << 16 };

static const struct {
    const char *descr;
    size_t bytes;
} types[NB_NPY_TYPES] = {[NB_NPY_F4] = {"<f4", 4},
                         [NB_NPY_F8] = {"<f8", 8},
                         [NB_NPY_F2] = {"<f2", 2},
                         [NB_NPY_U2] = {"<u2", 2}};

size_t nb_npy_bytes(enum nb_npy_type type)
{
    return types[type].bytes;
}

/* ---- The header: a Python dict of three entries ------------------------- */

static bool skip(const char **p, const char *token)
{
    *p += strspn(*p, " ");
    const size_t length = strlen(token);
    if (strncmp(*p, token, length) != 0)
        return false;
    *p += length;
    return true;
}

static bool parse_type(const char **p, nb_npy *array)
{
    for (int i = 0; i < NB_NPY_TYPES; i++) {
        char quoted[8];
        snprintf(quoted, sizeof quoted, "'%s'", types[i].descr);
        if (skip(p, quoted)) {
            array->type = (enum nb_npy_type)i;
            return true;
        }
    }
    return false;
}

static bool parse_shape(const char **p, nb_npy *array)
{
    if (!skip(p, "("))
        return false;
    while (!skip(p, ")")) {
        *p += strspn(*p, " ");
        if (**p < '0' || **p > '9' || array->dimensions == NB_NPY_DIMENSIONS)
            return false;
        char *end;
        errno = 0;
        const unsigned long long size = strtoull(*p, &end, 10);
        if (errno || size > SIZE_MAX)
            return false;
        array->shape[array->dimensions++] = (size_t)size;
        *p = end;
        if (!skip(p, ",") && !skip(p, ")"))
            return false;
        else if ((*p)[-1] == ')')
            return true;
    }
    return true;
}

/* NULL, or what is wrong with it. */
static const char *parse_header(const char *text, nb_npy *array)
{
    const char *p = text;
    bool descr = false, order = false, shape = false;
    if (!skip(&p, "{"))
        return "its header is no dictionary";
    while (!skip(&p, "}")) {
        if (skip(&p, "'descr':")) {
            if (!(descr = parse_type(&p, array)))
                return "its type is none of <f4, <f8, <f2, <u2";
        } else if (skip(&p, "'fortran_order':")) {
            if (!(order = skip(&p, "False")))
                return "it is not in C order";
        } else if (skip(&p, "'shape':")) {
            if (!(shape = !shape && parse_shape(&p, array)))
                return "its shape cannot be read";
        } else {
            return "its header has an entry that is not known";
        }
        skip(&p, ",");
    }
    if (!descr || !order || !shape)
        return "its header lacks descr, fortran_order or shape";
    array->count = 1;
    for (size_t i = 0; i < array->dimensions; i++)
        if (__builtin_mul_overflow(array->count, array->shape[i], &array->count))
            return "its shape overflows";
    return NULL;
}

/* ---- Reading ------------------------------------------------------------ */

static const char *read_header(FILE *file, nb_npy *array)
{
    unsigned char prefix[12];
    if (fread(prefix, 1, PREFIX_BYTES, file) != PREFIX_BYTES ||
        memcmp(prefix, MAGIC, MAGIC_BYTES) != 0)
        return "it is no .npy file";
    size_t length = prefix[8] | (size_t)prefix[9] << 8;
    if (prefix[6] == 2) {
        if (fread(prefix + PREFIX_BYTES, 1, 2, file) != 2)
            return "it ends within its header";
        length |= (size_t)prefix[10] << 16 | (size_t)prefix[11] << 24;
    } else if (prefix[6] != 1) {
        return "its version is neither 1 nor 2";
    }
    if (length > HEADER_LIMIT)
        return "its header is too long";
    char *text = nb_allocate(length + 1);
    const bool whole = fread(text, 1, length, file) == length;
    text[length] = '\0';
    const char *wrong = whole ? parse_header(text, array) : "it ends within its header";
    free(text);
    return wrong;
}

static const char *read_data(FILE *file, nb_npy *array)
{
    size_t bytes;
    if (__builtin_mul_overflow(array->count, types[array->type].bytes, &bytes))
        return "its shape overflows";
    /* The size is known before memory is asked for: a header may lie. */
    const long start = ftell(file);
    if (start < 0 || fseek(file, 0, SEEK_END) != 0)
        return "it cannot be read by position";
    const long end = ftell(file);
    if (end < start || (size_t)(end - start) < bytes)
        return "it is shorter than its shape";
    if ((size_t)(end - start) > bytes)
        return "it is longer than its shape";
    array->data = nb_allocate(bytes);
    if (fseek(file, start, SEEK_SET) != 0 || fread(array->data, 1, bytes, file) != bytes)
        return "reading failed";
    return NULL;
}

int nb_npy_read(const char *path, nb_npy *array)
{
    *array = (nb_npy){0};
    FILE *file = fopen(path, "rbe");
    if (!file)
        return nb_fail(NB_USAGE, "%s: %s", path, strerror(errno));
    const char *wrong = read_header(file, array);
    if (!wrong)
        wrong = read_data(file, array);
    fclose(file);
    if (!wrong)
        return NB_OK;
    nb_npy_free(array);
    return nb_fail(NB_USAGE, "%s: %s", path, wrong);
}

void nb_npy_free(nb_npy *array)
{
    free(array->data);
    *array = (nb_npy){0};
}

/* ---- Writing ------------------------------------------------------------ */

static char *shape_text(const nb_npy *array)
{
    char *text = nb_duplicate("");
    for (size_t i = 0; i < array->dimensions; i++) {
        char *longer = nb_format("%s%s%zu%s", text, i ? ", " : "", array->shape[i],
                                 array->dimensions == 1 ? "," : "");
        free(text);
        text = longer;
    }
    return text;
}

int nb_npy_write(const char *path, const nb_npy *array)
{
    FILE *file = nb_output_open(path, true);
    if (!file)
        return NB_USAGE;
    char *shape = shape_text(array);
    char *header = nb_format("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                             types[array->type].descr, shape);
    /* Spaces and a newline fill it up to where the data is aligned. */
    const size_t text = strlen(header);
    const size_t padding = ALIGNMENT - (PREFIX_BYTES + text + 1) % ALIGNMENT;
    const size_t length = text + padding + 1;
    const unsigned char size[2] = {(unsigned char)(length & 0xff), (unsigned char)(length >> 8)};
    fwrite(MAGIC "\x01\x00", 1, MAGIC_BYTES + 2, file);
    fwrite(size, 1, 2, file);
    fprintf(file, "%s%*s\n", header, (int)padding, "");
    fwrite(array->data, types[array->type].bytes, array->count, file);
    free(header);
    free(shape);
    return nb_output_close(file, path);
}
