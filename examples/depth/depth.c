/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of the gradient on its way back through 1 to 96 layers, by where the
 * norm stands: Post-Norm (Vaswani et al. 2017), Pre-Norm with a final norm (Xiong et al.
 * 2020), Sandwich (Ding et al. 2021) and DeepNorm (Wang et al. 2022).
 *
 * A layer has two sublayers, each a fixed random linear map y -> y W by CBLAS; all that
 * stands around them, forward and backward, are kernels of libnormkernels. The maps are
 * initialised as GPT-2's residual projections (N(0, 0.02), over sqrt(2N) for N layers) or
 * as Xavier's (N(0, 1 / hidden)); DeepNorm takes Xavier's times its beta, (8N)^(-1/4). */
#include <normkernels.h>

#include <argp.h>
#include <cblas.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum scheme { POST, PRE, SANDWICH, DEEP, SCHEMES };
static const char *const scheme_names[SCHEMES] = {"post_norm", "pre_norm", "sandwich", "deepnorm"};
enum init { GPT2, XAVIER, INITS };
static const char *const init_names[INITS] = {"gpt2", "xavier"};

static const size_t depths[] = {1, 2, 4, 8, 16, 32, 64, 96};
enum { DEPTHS = sizeof depths / sizeof depths[0] };
static const float eps = 1e-5f;

/* One network: its maps, and what the forward pass keeps for the backward one. */
typedef struct net {
    enum scheme scheme;
    size_t layers, maps, hidden, rows, row_elements, map_elements;
    float alpha;
    float *weights;  /* [maps, hidden, hidden] */
    float *y;        /* [maps + 1, rows, hidden]: what each map reads; at last the output */
    float *h;        /* [maps, rows, hidden]: the residual stream after each map */
    float *residual; /* [maps, rows, hidden]: what each map gives */
    float *dy, *dh, *dresidual, *dweights; /* [rows, hidden]; the last [hidden, hidden] */
} net;

/* ---- Numbers ---------------------------------------------------------------- */

static float *floats(size_t count)
{
    float *p = calloc(count, sizeof *p);
    if (!p) {
        fprintf(stderr, "depth: no memory for %zu numbers; take a smaller --hidden\n", count);
        exit(3);
    }
    return p;
}

/* N(0, 1): sum of twelve uniform numbers, from splitmix64. */
static float normal(uint64_t *state)
{
    float sum = -6;
    for (int i = 0; i < 12; i++) {
        uint64_t z = *state += 0x9E3779B97F4A7C15;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
        z = (z ^ z >> 27) * 0x94D049BB133111EB;
        sum += (float)((z ^ z >> 31) >> 40) * 0x1p-24f;
    }
    return sum;
}

static void fill(float *p, size_t count, float deviation, uint64_t seed)
{
    for (size_t i = 0; i < count; i++)
        p[i] = deviation * normal(&seed);
}

static double dot(const float *a, const float *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static double norm_of(const float *a, size_t count)
{
    return sqrt(dot(a, a, count));
}

static void must(nk_status status)
{
    if (status != NK_OK) {
        fprintf(stderr, "depth: %s\n", nk_status_text(status));
        exit(1);
    }
}

/* to = from W, or from W^T; added to what is there where `add`. */
static void map(const net *n, size_t k, bool transposed, const float *from, float *to, bool add)
{
    const int rows = (int)n->rows, hidden = (int)n->hidden;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, transposed ? CblasTrans : CblasNoTrans, rows, hidden,
                hidden, 1, from, hidden, n->weights + k * n->map_elements, hidden, add ? 1 : 0, to,
                hidden);
}

/* ---- Network ------------------------------------------------------------------ */

static float deviation_of(const net *n, enum init init)
{
    const float xavier = 1 / sqrtf((float)n->hidden), layers = (float)n->layers;
    if (n->scheme == DEEP)
        return xavier * powf(8 * layers, -0.25f);
    return init == XAVIER ? xavier : 0.02f / sqrtf(2 * layers);
}

static net net_create(enum scheme scheme, enum init init, size_t layers, size_t hidden, size_t rows)
{
    net n = {.scheme = scheme,
             .layers = layers,
             .maps = 2 * layers,
             .hidden = hidden,
             .rows = rows,
             .row_elements = rows * hidden,
             .map_elements = hidden * hidden,
             .alpha = powf(2 * (float)layers, 0.25f)};
    n.weights = floats(n.maps * n.map_elements);
    n.y = floats((n.maps + 1) * n.row_elements);
    n.h = floats(n.maps * n.row_elements);
    n.residual = floats(n.maps * n.row_elements);
    n.dy = floats(n.row_elements);
    n.dh = floats(n.row_elements);
    n.dresidual = floats(n.row_elements);
    n.dweights = floats(n.map_elements);
    fill(n.weights, n.maps * n.map_elements, deviation_of(&n, init), 1);
    return n;
}

static void net_free(net *n)
{
    float *const all[] = {n->weights, n->y,  n->h,         n->residual,
                          n->dy,      n->dh, n->dresidual, n->dweights};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

/* From x to the output, which it returns. Pre-Norm and Sandwich normalise x before the
 * first map, and the norm after the last map is the final one. */
static const float *forward(net *n, const float *x)
{
    const size_t rows = n->rows, hidden = n->hidden, size = n->row_elements;
    const bool pre = n->scheme == PRE || n->scheme == SANDWICH;
    if (pre)
        must(nk_rmsnorm_f32(x, NULL, n->y, rows, hidden, eps));
    else
        memcpy(n->y, x, size * sizeof *x);
    for (size_t k = 0; k < n->maps; k++) {
        float *y = n->y + k * size, *next = y + size, *h = n->h + k * size;
        float *residual = n->residual + k * size;
        const float *stream = !pre ? y : k == 0 ? x : h - size;
        map(n, k, false, y, residual, false);
        if (n->scheme == POST)
            must(nk_add_layernorm_f32(stream, residual, NULL, NULL, h, next, rows, hidden, eps));
        if (n->scheme == PRE)
            must(nk_add_rmsnorm_f32(stream, residual, NULL, h, next, rows, hidden, eps));
        if (n->scheme == SANDWICH)
            must(nk_rmsnorm_add_rmsnorm_f32(stream, residual, NULL, NULL, h, next, rows, hidden,
                                            eps));
        if (n->scheme == DEEP)
            must(nk_deepnorm_f32(stream, residual, NULL, NULL, h, next, rows, hidden, eps,
                                 n->alpha));
    }
    return n->y + n->maps * size;
}

/* Through map k and what stands around it: from n->dy (and n->dh, the stream's) behind it
 * to those before it. Post-Norm and DeepNorm have one stream: its gradient is dy. */
static void backward_step(net *n, size_t k)
{
    const size_t rows = n->rows, hidden = n->hidden, size = n->row_elements;
    const float *h = n->h + k * size, *residual = n->residual + k * size;
    if (n->scheme == POST) {
        must(nk_add_layernorm_bwd_f32(h, NULL, n->dy, NULL, NULL, NULL, n->dresidual, NULL, NULL,
                                      rows, hidden, eps));
        memcpy(n->dy, n->dresidual, size * sizeof *n->dy);
    }
    if (n->scheme == PRE) {
        must(nk_add_rmsnorm_bwd_f32(h, NULL, n->dy, n->dh, NULL, n->dh, NULL, rows, hidden, eps));
        memcpy(n->dresidual, n->dh, size * sizeof *n->dh);
    }
    if (n->scheme == SANDWICH)
        must(nk_rmsnorm_add_rmsnorm_bwd_f32(h, residual, NULL, NULL, n->dy, n->dh, NULL, NULL,
                                            n->dh, n->dresidual, NULL, NULL, rows, hidden, eps));
    if (n->scheme == DEEP)
        must(nk_deepnorm_bwd_f32(n->y + k * size, residual, NULL, n->dy, NULL, NULL, NULL, n->dy,
                                 n->dresidual, NULL, NULL, NULL, rows, hidden, eps, n->alpha));
    map(n, k, true, n->dresidual, n->dy, n->scheme == POST || n->scheme == DEEP);
}

/* The norm of the gradient of map k's weights: y^T dresidual. */
static double weights_norm(net *n, size_t k)
{
    const int rows = (int)n->rows, hidden = (int)n->hidden;
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, hidden, hidden, rows, 1,
                n->y + k * n->row_elements, hidden, n->dresidual, hidden, 0, n->dweights, hidden);
    return norm_of(n->dweights, n->map_elements);
}

/* Norms of gradients, seen on the way back. */
typedef struct norms {
    double *stream;  /* [layers + 1]: before each layer, and of the output */
    double *weights; /* [layers]: of each layer's second map */
} norms;

/* The gradient of x, given that of the output. */
static const float *backward(net *n, const float *x, const float *doutput, const norms *seen)
{
    const size_t size = n->row_elements;
    const bool pre = n->scheme == PRE || n->scheme == SANDWICH;
    memcpy(n->dy, doutput, size * sizeof *doutput);
    memset(n->dh, 0, size * sizeof *n->dh);
    if (seen)
        seen->stream[n->layers] = norm_of(doutput, size);
    for (size_t k = n->maps; k-- > 0;) {
        backward_step(n, k);
        if (seen && k % 2)
            seen->weights[k / 2] = weights_norm(n, k);
        if (pre && k == 0) /* the first norm, beside the straight path */
            must(nk_add_rmsnorm_bwd_f32(x, NULL, n->dy, n->dh, NULL, n->dh, NULL, n->rows,
                                        n->hidden, eps));
        if (seen && k % 2 == 0)
            seen->stream[k / 2] = norm_of(pre ? n->dh : n->dy, size);
    }
    return pre ? n->dh : n->dy;
}

/* ---- What is asked ---------------------------------------------------------------- */

typedef struct options {
    size_t hidden, rows;
    const char *csv;
    bool check;
} options;

/* The gradient against a central difference along a random direction: the relative
 * difference. */
static double check(enum scheme scheme, const options *o)
{
    const float step = 0x1p-6f;
    net n = net_create(scheme, XAVIER, 4, o->hidden, o->rows);
    const size_t size = n.row_elements;
    float *x = floats(size), *direction = floats(size), *doutput = floats(size);
    double loss[2];
    fill(x, size, 1, 2);
    fill(direction, size, 1, 3);
    fill(doutput, size, 1, 4);
    for (int side = 0; side < 2; side++) {
        float *moved = floats(size);
        for (size_t i = 0; i < size; i++)
            moved[i] = x[i] + (side ? -step : step) * direction[i];
        loss[side] = dot(forward(&n, moved), doutput, size);
        free(moved);
    }
    forward(&n, x);
    const double difference = (loss[0] - loss[1]) / (2 * (double)step);
    const float *gradient = backward(&n, x, doutput, NULL);
    const double along = dot(gradient, direction, size);
    const double scale = norm_of(gradient, size) * norm_of(direction, size) / sqrt((double)size);
    free(x);
    free(direction);
    free(doutput);
    net_free(&n);
    return fabs(along - difference) / scale;
}

static int check_all(const options *o)
{
    int status = 0;
    for (int scheme = 0; scheme < SCHEMES; scheme++) {
        const double error = check((enum scheme)scheme, o);
        const bool right = error < 0.02;
        printf("%-10s gradient against a central difference: %.2g of its size%s\n",
               scheme_names[scheme], error, right ? "" : ": WRONG");
        status |= !right;
    }
    return status;
}

/* Two figures of a network: of the stream's gradient what the input has over what the
 * output has, and the norm of the last map's weights' gradient over the output's. */
typedef struct figures {
    double kept, last_weights;
} figures;

static figures measure(enum scheme scheme, enum init init, size_t layers, const options *o,
                       FILE *csv)
{
    net n = net_create(scheme, init, layers, o->hidden, o->rows);
    const size_t size = n.row_elements;
    float *x = floats(size), *doutput = floats(size);
    const norms seen = {calloc(layers + 1, sizeof(double)), calloc(layers, sizeof(double))};
    if (!seen.stream || !seen.weights)
        exit(3);
    fill(x, size, 1, 2);
    fill(doutput, size, 1, 4);
    forward(&n, x);
    backward(&n, x, doutput, &seen);
    const double output = seen.stream[layers];
    for (size_t layer = 0; csv && layer < layers; layer++)
        fprintf(csv, "%s,%s,%zu,%zu,%.9g,%.9g\n", scheme_names[scheme], init_names[init], layers,
                layer, seen.stream[layer] / output, seen.weights[layer] / output);
    const figures f = {seen.stream[0] / output, seen.weights[layers - 1] / output};
    free(seen.stream);
    free(seen.weights);
    free(x);
    free(doutput);
    net_free(&n);
    return f;
}

static void print_line(const char *name, const double *values)
{
    printf("%-10s", name);
    for (size_t i = 0; i < DEPTHS; i++)
        printf(" %8.3g", values[i]);
    printf("\n");
}

static void print_head(const char *title, enum init init)
{
    printf("%s, maps as %s's\n%-10s", title, init_names[init], "layers");
    for (size_t i = 0; i < DEPTHS; i++)
        printf(" %8zu", depths[i]);
    printf("\n");
}

/* What was seen, in the words of what the literature expects. A map whose gain is g makes
 * its stream sqrt(1 + g^2) larger; the norm behind it divides the gradient by as much, and
 * the map's own path gives as much back: so a linear Post-Norm need not lose any. */
static void say(const figures f[SCHEMES][DEPTHS])
{
    for (int scheme = 0; scheme < SCHEMES; scheme++) {
        const figures *last = &f[scheme][DEPTHS - 1];
        const double power =
            log(last->last_weights / f[scheme][0].last_weights) / log((double)depths[DEPTHS - 1]);
        printf("  %-10s %s from %zu layers' output to input (x %.3g); its last weights' "
               "gradient goes with layers^%.2f\n",
               scheme_names[scheme],
               last->kept < 0.1   ? "loses the gradient"
               : last->kept <= 10 ? "keeps the gradient"
                                  : "lets it grow",
               depths[DEPTHS - 1], last->kept, power);
    }
    const bool shrinks = f[POST][DEPTHS - 1].kept < 0.1 * f[PRE][DEPTHS - 1].kept;
    printf("  Pre-Norm's straight path keeps the gradient and Post-Norm's shrinks: %s\n",
           shrinks ? "so it is here" : "not with linear maps, which give back what the norm takes");
}

static void study_init(enum init init, const options *o, FILE *csv)
{
    figures f[SCHEMES][DEPTHS];
    double values[DEPTHS];
    print_head("The stream's gradient at the input over the output's", init);
    for (int scheme = 0; scheme < SCHEMES; scheme++) {
        for (size_t i = 0; i < DEPTHS; i++) {
            f[scheme][i] = measure((enum scheme)scheme, init, depths[i], o, csv);
            values[i] = f[scheme][i].kept;
        }
        print_line(scheme_names[scheme], values);
    }
    print_head("The gradient of the last map's weights over the output's", init);
    for (int scheme = 0; scheme < SCHEMES; scheme++) {
        for (size_t i = 0; i < DEPTHS; i++)
            values[i] = f[scheme][i].last_weights;
        print_line(scheme_names[scheme], values);
    }
    printf("Seen:\n");
    say((const figures(*)[DEPTHS])f);
}

static int study(const options *o)
{
    FILE *csv = NULL;
    if (o->csv && !(csv = fopen(o->csv, "wx"))) {
        fprintf(stderr, "depth: %s: it exists or cannot be written; name another file\n", o->csv);
        return 2;
    }
    if (csv)
        fprintf(csv, "scheme,init,layers,layer,stream_gradient,weights_gradient\n");
    for (int init = 0; init < INITS; init++) {
        printf(init ? "\n" : "");
        study_init((enum init)init, o, csv);
    }
    if (csv && fclose(csv)) {
        fprintf(stderr, "depth: %s: could not be written whole\n", o->csv);
        return 3;
    }
    return 0;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    options *o = state->input;
    char *end;
    const unsigned long number = text ? strtoul(text, &end, 10) : 0;
    switch (key) {
    case 'n':
    case 'r':
        if (*end || number < 2 || number > 65536)
            argp_error(state, "'%s' is no number from 2 to 65536", text);
        *(key == 'n' ? &o->hidden : &o->rows) = number;
        return 0;
    case 'o':
        o->csv = text;
        return 0;
    case 'c':
        o->check = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp_option list[] = {
        {"hidden", 'n', "N", 0, "Elements of a row (128)", 0},
        {"rows", 'r', "N", 0, "Rows (16)", 0},
        {"csv", 'o', "FILE", 0, "Gradients at every layer of every network, too", 0},
        {"check", 'c', 0, 0, "Hold gradients against central differences instead", 0},
        {0}};
    static const struct argp argp = {
        list,
        parse,
        NULL,
        "What becomes of the gradient through 1 to 96 layers of Post-Norm, Pre-Norm, Sandwich and "
        "DeepNorm.",
        NULL,
        NULL,
        NULL};
    options o = {.hidden = 128, .rows = 16};
    argp_err_exit_status = 2;
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    return o.check ? check_all(&o) : study(&o);
}
