/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy's .npy files, versions 1 and 2: little-endian f4, f8, f2 and u2 in C
 * order. */
#ifndef NB_NPY_H
#define NB_NPY_H

#include <stdbool.h>
#include <stddef.h>

enum nb_npy_type { NB_NPY_F4, NB_NPY_F8, NB_NPY_F2, NB_NPY_U2, NB_NPY_TYPES };
enum { NB_NPY_DIMENSIONS = 32 };

typedef struct nb_npy {
    enum nb_npy_type type;
    size_t dimensions;
    size_t shape[NB_NPY_DIMENSIONS];
    size_t count; /* of elements */
    void *data;
} nb_npy;

size_t nb_npy_bytes(enum nb_npy_type type);

/* Reads a file whole. NB_OK, or NB_USAGE after a message that names it. */
int nb_npy_read(const char *path, nb_npy *array);
void nb_npy_free(nb_npy *array);

/* Writes one. NB_OK, or a status after a message. */
int nb_npy_write(const char *path, const nb_npy *array);

#endif
