/* Four of the papers' kernels as OpenMP programs whose tasks say by depend what they use: map, matmul, jacobi2d and sparselu, with the blocks
 * that `vicus bench kernels` has of them. `kernels NAME BLOCKS SIZE`: how many blocks, in each direction but for map, and how many rows and
 * columns each has; of map, how many bytes. Without arguments, all of them, and small. Prints a sum of the results. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float *block_of(size_t elements) {
    float *block = malloc(elements * sizeof *block);
    if (!block) {
        perror("kernels");
        exit(1);
    }
    return block;
}

/* The sum is exact in any order: elements count by their place, as small integers. */
static double sum_of(const float *elements, size_t n) {
    double sum = 0;
    for (size_t at = 0; at < n; ++at) sum += (double)elements[at] * (double)(at % 16 + 1);
    return sum;
}

static double map(size_t vectors, size_t bytes) {
    size_t n = bytes / sizeof(float);
    float **all = malloc(vectors * sizeof *all);
    for (size_t number = 0; number < vectors; ++number) {
        all[number] = block_of(n);
        for (size_t at = 0; at < n; ++at) all[number][at] = (float)((number + at) % 8);
    }
#pragma omp parallel
#pragma omp single
    for (size_t number = 0; number < vectors; ++number) {
        float *vector = all[number];
#pragma omp task depend(inout : vector[0 : n]) firstprivate(vector, n)
        for (size_t at = 0; at < n; ++at) vector[at] *= 1.5f;
    }
    double sum = 0;
    for (size_t number = 0; number < vectors; ++number) sum += sum_of(all[number], n), free(all[number]);
    free(all);
    return sum;
}

static void add_product(float *restrict c, const float *restrict a, const float *restrict b, size_t n, float sign) {
    for (size_t i = 0; i < n; ++i)
        for (size_t k = 0; k < n; ++k) {
            float times = sign * a[i * n + k];
            for (size_t j = 0; j < n; ++j) c[i * n + j] += times * b[k * n + j];
        }
}

static double matmul(size_t blocks, size_t n) {
    size_t all = n * n;
    float **matrices[3];
    for (size_t matrix = 0; matrix < 3; ++matrix) {
        matrices[matrix] = malloc(blocks * blocks * sizeof(float *));
        for (size_t number = 0; number < blocks * blocks; ++number) {
            float *block = matrices[matrix][number] = block_of(all);
            size_t row = number / blocks * n, column = number % blocks * n;
            for (size_t at = 0; at < all; ++at) {
                size_t i = row + at / n, j = column + at % n;
                block[at] = matrix == 2 ? 0 : (float)((i * (3 + matrix) + j * 5 + i * j) % 7) - 3;
            }
        }
    }
    float **a = matrices[0], **b = matrices[1], **c = matrices[2];
#pragma omp parallel
#pragma omp single
    for (size_t number = 0; number < blocks * blocks; ++number) {
        size_t row = number / blocks, column = number % blocks;
        float *product = c[number];
#pragma omp task depend(inout : product[0 : all]) depend(iterator(k = 0 : blocks), in : a[row * blocks + k][0 : all], b[k * blocks + column][0 : all]) \
    firstprivate(product, row, column)
        for (size_t k = 0; k < blocks; ++k) add_product(product, a[row * blocks + k], b[k * blocks + column], n, 1);
    }
    double sum = 0;
    for (size_t number = 0; number < blocks * blocks; ++number) sum += sum_of(c[number], all);
    for (size_t matrix = 0; matrix < 3; ++matrix) {
        for (size_t number = 0; number < blocks * blocks; ++number) free(matrices[matrix][number]);
        free(matrices[matrix]);
    }
    return sum;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static double jacobi2d(size_t blocks, size_t n) {
    enum { SWEEPS = 4 };
    size_t size = blocks * n;
    float *grids[2];
    for (int grid = 0; grid < 2; ++grid) {
        grids[grid] = block_of(size * size);
        for (size_t at = 0; at < size * size; ++at) {
            size_t i = at / size, j = at % size;
            grids[grid][at] = (float)((i * 31 + j * 17 + i * j) % 64);
        }
    }
#pragma omp parallel
#pragma omp single
    for (int sweep = 0; sweep < SWEEPS; ++sweep) {
        float *from = grids[sweep % 2], *to = grids[(sweep + 1) % 2];
        for (size_t r = 0; r < size; r += n)
            for (size_t c = 0; c < size; c += n) {
                size_t top = r ? r : 1, end = least(r + n, size - 1), left = c ? c : 1, right = least(c + n, size - 1);
                size_t wide = right - left;
#pragma omp task depend(iterator(row = top - 1 : end + 1), in : from[row * size + left - 1 : wide + 2]) \
    depend(iterator(row = top : end), inout : to[row * size + left : wide]) firstprivate(from, to, top, end, left, right)
                for (size_t i = top; i < end; ++i) {
                    const float *above = from + (i - 1) * size, *here = from + i * size, *below = from + (i + 1) * size;
                    for (size_t j = left; j < right; ++j)
                        to[i * size + j] = 0.25f * ((above[j] + below[j]) + (here[j - 1] + here[j + 1]));
                }
            }
#pragma omp taskwait
    }
    double sum = sum_of(grids[SWEEPS % 2], size * size);
    free(grids[0]), free(grids[1]);
    return sum;
}

static int is_there(size_t row, size_t column) {
    size_t apart = row > column ? row - column : column - row;
    return apart <= 1 || (row % 2 == 0 && column % 2 == 0 && least(row, column) % 3 == 0);
}

static void lu0(float *diagonal, size_t n) {
    for (size_t k = 0; k < n; ++k)
        for (size_t i = k + 1; i < n; ++i) {
            float times = diagonal[i * n + k] /= diagonal[k * n + k];
            for (size_t j = k + 1; j < n; ++j) diagonal[i * n + j] -= times * diagonal[k * n + j];
        }
}

static void fwd(const float *restrict diagonal, float *restrict right, size_t n) {
    for (size_t k = 0; k < n; ++k)
        for (size_t i = k + 1; i < n; ++i)
            for (size_t j = 0; j < n; ++j) right[i * n + j] -= diagonal[i * n + k] * right[k * n + j];
}

static void bdiv(const float *restrict diagonal, float *restrict below, size_t n) {
    for (size_t i = 0; i < n; ++i)
        for (size_t k = 0; k < n; ++k) {
            float times = below[i * n + k] /= diagonal[k * n + k];
            for (size_t j = k + 1; j < n; ++j) below[i * n + j] -= times * diagonal[k * n + j];
        }
}

static double sparselu(size_t blocks, size_t n) {
    size_t all = n * n;
    float **at = calloc(blocks * blocks, sizeof *at);
    for (size_t row = 0; row < blocks; ++row)
        for (size_t column = 0; column < blocks; ++column) {
            if (!is_there(row, column)) continue;
            float *block = at[row * blocks + column] = block_of(all);
            for (size_t i = 0; i < n; ++i)
                for (size_t j = 0; j < n; ++j) {
                    float small = (float)((row * 31 + column * 17 + i * 7 + j * 3) % 64) / 64;
                    block[i * n + j] = row == column && i == j ? (float)(blocks * n) + small : small;
                }
        }
    /* Blocks that the elimination adds, in the order of their first use. */
    char *there = calloc(blocks, blocks), *is_new = calloc(blocks, blocks);
    for (size_t place = 0; place < blocks * blocks; ++place) there[place] = at[place] != NULL;
    for (size_t k = 0; k < blocks; ++k)
        for (size_t row = k + 1; row < blocks; ++row)
            for (size_t column = k + 1; column < blocks; ++column) {
                size_t place = row * blocks + column;
                if (!there[row * blocks + k] || !there[k * blocks + column] || there[place]) continue;
                at[place] = block_of(all), there[place] = is_new[place] = 1;
            }
#pragma omp parallel
#pragma omp single
    for (size_t k = 0; k < blocks; ++k) {
        float *diagonal = at[k * blocks + k];
#pragma omp task depend(inout : diagonal[0 : all]) firstprivate(diagonal)
        lu0(diagonal, n);
        for (size_t column = k + 1; column < blocks; ++column) {
            float *right = at[k * blocks + column];
            if (!right || is_new[k * blocks + column]) continue;
#pragma omp task depend(inout : right[0 : all]) depend(in : diagonal[0 : all]) firstprivate(diagonal, right)
            fwd(diagonal, right, n);
        }
        for (size_t row = k + 1; row < blocks; ++row) {
            float *below = at[row * blocks + k];
            if (!below || is_new[row * blocks + k]) continue;
#pragma omp task depend(inout : below[0 : all]) depend(in : diagonal[0 : all]) firstprivate(diagonal, below)
            bdiv(diagonal, below, n);
        }
        for (size_t row = k + 1; row < blocks; ++row)
            for (size_t column = k + 1; column < blocks; ++column) {
                size_t place = row * blocks + column;
                float *below = at[row * blocks + k], *right = at[k * blocks + column], *changed = at[place];
                if (!below || !right || is_new[row * blocks + k] || is_new[k * blocks + column]) continue;
                int new = is_new[place];
                is_new[place] = 0;
#pragma omp task depend(inout : changed[0 : all]) depend(in : below[0 : all], right[0 : all]) firstprivate(changed, below, right, new)
                {
                    if (new) memset(changed, 0, all * sizeof(float));
                    add_product(changed, below, right, n, -1);
                }
            }
    }
    double sum = 0;
    for (size_t place = 0; place < blocks * blocks; ++place)
        if (at[place]) sum += sum_of(at[place], all), free(at[place]);
    free(at), free(there), free(is_new);
    return sum;
}

int main(int count, char **words) {
    const struct {
        const char *name;
        double (*run)(size_t, size_t);
        /* Without arguments. */
        size_t blocks, size;
    } kernels[] = {{"map", map, 6, 8192}, {"matmul", matmul, 3, 32}, {"jacobi2d", jacobi2d, 4, 32}, {"sparselu", sparselu, 6, 16}};
    if (count != 1 && count != 4) {
        fprintf(stderr, "Usage: kernels [map|matmul|jacobi2d|sparselu BLOCKS SIZE]\n");
        return 2;
    }
    for (size_t number = 0; number < sizeof kernels / sizeof *kernels; ++number) {
        size_t blocks = kernels[number].blocks, size = kernels[number].size;
        if (count == 4) {
            if (strcmp(words[1], kernels[number].name)) continue;
            blocks = strtoul(words[2], NULL, 10), size = strtoul(words[3], NULL, 10);
        }
        printf("%s %.17g\n", kernels[number].name, kernels[number].run(blocks, size));
    }
}
