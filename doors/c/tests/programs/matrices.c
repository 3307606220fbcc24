/* Matrices, loops over their tiles, and MapReduce from one queue to another. Arguments are a strategy and a number of
   threads. */
#include <vicus.h>

#include <stdatomic.h>

#include "check.h"

#define ROWS ((size_t)301)
#define COLUMNS ((size_t)203)

static vicus_runtime *runtime;

struct step {
    vicus_matrix *from, *to;
    atomic_size_t elements, tiles;
};

static double *element(const vicus_matrix *matrix, size_t row, size_t column) {
    void *found = NULL;
    CHECK(vicus_matrix_at(matrix, row, column, &found, NULL) == VICUS_OK);
    return found;
}

/* Each element is the sum of itself and of those above, below, left and right of it that there are. */
static int32_t cross(void *data, const vicus_tile *tile) {
    struct step *step = data;
    for (size_t row = tile->row_begin; row < tile->row_end; ++row) {
        for (size_t column = tile->column_begin; column < tile->column_end; ++column) {
            double sum = *element(step->from, row, column);
            if (row > tile->reads_row_begin) sum += *element(step->from, row - 1, column);
            if (row + 1 < tile->reads_row_end) sum += *element(step->from, row + 1, column);
            if (column > tile->reads_column_begin) sum += *element(step->from, row, column - 1);
            if (column + 1 < tile->reads_column_end) sum += *element(step->from, row, column + 1);
            *element(step->to, row, column) = sum;
            atomic_fetch_add(&step->elements, 1);
        }
    }
    CHECK(tile->node >= 0 && (uint32_t)tile->node < vicus_topology_count(vicus_runtime_topology(runtime), VICUS_NODE));
    atomic_fetch_add(&step->tiles, 1);
    return VICUS_OK;
}

static double plain[2][ROWS][COLUMNS];

static void stencils(uint32_t order, uint32_t pattern) {
    vicus_matrix_options options = VICUS_MATRIX_OPTIONS_INIT;
    struct step step = {NULL, NULL, 0, 0};
    size_t tile_rows = 0, tile_columns = 0, in_row = 0;
    void *found = NULL;
    options.order = order;
    options.pattern = pattern;
    options.tile_rows = 32;
    options.tile_columns = order == VICUS_BY_TILES ? 64 : 100;
    options.segment_pages = 2;
    options.seed = 7;
    options.place = (vicus_place){VICUS_PLACE_NODE, 0};
    CHECK(vicus_matrix_new(runtime, ROWS, COLUMNS, sizeof(double), &options, &step.from) == VICUS_OK);
    CHECK(vicus_matrix_new(runtime, ROWS, COLUMNS, sizeof(double), &options, &step.to) == VICUS_OK);
    CHECK(vicus_matrix_tile(step.from, &tile_rows, &tile_columns) == VICUS_OK);
    CHECK(tile_rows == 32 && tile_columns == options.tile_columns);
    CHECK(vicus_matrix_data(step.from) == element(step.from, 0, 0) && vicus_matrix_data(NULL) == NULL);
    CHECK(vicus_matrix_at(step.from, 1, 70, &found, &in_row) == VICUS_OK);
    CHECK(in_row == (order == VICUS_BY_TILES ? 58 : COLUMNS - 70));
    CHECK((double *)found + in_row - 1 == element(step.from, 1, 70 + in_row - 1));
    for (size_t row = 0; row < ROWS; ++row) {
        for (size_t column = 0; column < COLUMNS; ++column) {
            CHECK(*element(step.from, row, column) == 0);
            *element(step.from, row, column) = plain[0][row][column] = (double)(row * 31 % 17 + column);
        }
    }
    for (int times = 0; times < 3; ++times) {
        const vicus_matrix *both[] = {step.from, step.to};
        vicus_matrix *kept = step.from;
        step.elements = step.tiles = 0;
        CHECK(vicus_for_each_tile(runtime, both, 2, 1, 1, cross, &step) == VICUS_OK);
        CHECK(step.elements == ROWS * COLUMNS
            && step.tiles == (ROWS + 31) / 32 * ((COLUMNS + tile_columns - 1) / tile_columns));
        for (size_t row = 0; row < ROWS; ++row) {
            for (size_t column = 0; column < COLUMNS; ++column) {
                double sum = plain[times % 2][row][column];
                if (row > 0) sum += plain[times % 2][row - 1][column];
                if (row + 1 < ROWS) sum += plain[times % 2][row + 1][column];
                if (column > 0) sum += plain[times % 2][row][column - 1];
                if (column + 1 < COLUMNS) sum += plain[times % 2][row][column + 1];
                plain[1 - times % 2][row][column] = sum;
                CHECK(*element(step.to, row, column) == sum);
            }
        }
        step.from = step.to;
        step.to = kept;
    }
    vicus_matrix_free(step.from);
    vicus_matrix_free(step.to);
}

struct line {
    vicus_matrix *numbers, *sums;
    size_t block;
};

static int32_t sum_three(void *data, const vicus_tile *tile) {
    struct line *line = data;
    const int32_t *numbers = vicus_matrix_data(line->numbers);
    int64_t *sums = vicus_matrix_data(line->sums);
    CHECK(tile->row_begin % line->block == 0 && tile->column_begin == 0 && tile->column_end == 1);
    CHECK(tile->reads_row_begin == (tile->row_begin < 2 ? 0 : tile->row_begin - 2));
    for (size_t at = tile->row_begin; at < tile->row_end; ++at) {
        sums[at] = 0;
        for (size_t near = at < 2 ? 0 : at - 2; near <= at; ++near) sums[at] += numbers[near];
    }
    return VICUS_OK;
}

/* An array is a matrix of one column; elements of two arrays need not be as large. */
static void arrays(void) {
    const size_t size = 100000;
    vicus_matrix_options options = VICUS_MATRIX_OPTIONS_INIT;
    struct line line = {NULL, NULL, 700};
    options.tile_rows = line.block;
    CHECK(vicus_matrix_new(runtime, size, 1, sizeof(int32_t), &options, &line.numbers) == VICUS_OK);
    options.pattern = VICUS_PATTERN_FIELDS;
    CHECK(vicus_matrix_new(runtime, size, 1, sizeof(int64_t), &options, &line.sums) == VICUS_OK);
    const vicus_matrix *both[] = {line.numbers, line.sums};
    int32_t *numbers = vicus_matrix_data(line.numbers);
    const int64_t *sums = vicus_matrix_data(line.sums);
    for (size_t at = 0; at < size; ++at) numbers[at] = (int32_t)at;
    CHECK(vicus_for_each_tile(runtime, both, 2, 2, 0, sum_three, &line) == VICUS_OK);
    CHECK(sums[0] == 0 && sums[1] == 1);
    for (size_t at = 2; at < size; ++at) CHECK(sums[at] == 3 * (int64_t)at - 3);
    vicus_matrix_free(line.numbers);
    vicus_matrix_free(line.sums);
}

static int32_t refuse(void *data, const vicus_tile *tile) {
    (void)data;
    return tile->row_begin > 0 ? vicus_fail(7, "a tile is refused", NULL, NULL) : VICUS_OK;
}

static void wrong_matrices(void) {
    vicus_matrix_options options = VICUS_MATRIX_OPTIONS_INIT;
    vicus_matrix *matrix = NULL, *other = NULL;
    void *found = NULL;
    CHECK_ERROR(vicus_matrix_new(runtime, 3, 4, 0, NULL, &matrix), VICUS_ERROR_ARGUMENT, "`element_bytes` is 0");
    CHECK_ERROR(vicus_matrix_new(runtime, 3, 4, 8, NULL, NULL), VICUS_ERROR_ARGUMENT, "`matrix` is null");
    CHECK_ERROR(vicus_matrix_new(runtime, SIZE_MAX, 2, 8, NULL, &matrix), VICUS_ERROR_NO_MEMORY, "too many");
    CHECK_ERROR(vicus_matrix_new(runtime, SIZE_MAX / 4, 1, 8, NULL, &matrix), VICUS_ERROR_NO_MEMORY, "");
    options.order = 2;
    CHECK_ERROR(vicus_matrix_new(runtime, 3, 4, 8, &options, &matrix), VICUS_ERROR_ARGUMENT, "order with the number 2");
    options.order = VICUS_BY_ROWS;
    options.pattern = 5;
    CHECK_ERROR(vicus_matrix_new(runtime, 3, 4, 8, &options, &matrix), VICUS_ERROR_ARGUMENT,
        "pattern with the number 5");
    options.pattern = VICUS_PATTERN_PLACE;
    CHECK_ERROR(vicus_matrix_new(runtime, 3, 4, 8, &options, &matrix), VICUS_ERROR_ARGUMENT, "not anywhere");
    options.place = (vicus_place){VICUS_PLACE_NODE, 1000};
    CHECK_ERROR(vicus_matrix_new(runtime, 3, 4, 8, &options, &matrix), VICUS_ERROR_ARGUMENT, "no node 1000");
    options.size = 4;
    CHECK_ERROR(vicus_matrix_new(runtime, 3, 4, 8, &options, &matrix), VICUS_ERROR_ARGUMENT,
        "VICUS_MATRIX_OPTIONS_INIT");
    /* One without elements has no tiles. */
    CHECK(vicus_matrix_new(NULL, 0, 4, 8, NULL, &matrix) == VICUS_OK);
    const vicus_matrix *one[] = {matrix}, *none[] = {NULL};
    CHECK(vicus_for_each_tile(runtime, one, 1, 1, 1, refuse, NULL) == VICUS_OK);
    CHECK_ERROR(vicus_matrix_at(matrix, 0, 0, &found, NULL), VICUS_ERROR_ARGUMENT, "no row 0 and column 0");
    vicus_matrix_free(matrix);
    CHECK(vicus_matrix_new(NULL, 30, 4, 5, NULL, &matrix) == VICUS_OK && vicus_matrix_new(NULL, 4, 30, 5, NULL,
        &other) == VICUS_OK);
    const vicus_matrix *both[] = {matrix, other};
    CHECK_ERROR(vicus_for_each_tile(runtime, both, 2, 0, 0, refuse, NULL), VICUS_ERROR_ARGUMENT, "30 x 4, and 4 x 30");
    CHECK_ERROR(vicus_for_each_tile(runtime, both, 0, 0, 0, refuse, NULL), VICUS_ERROR_ARGUMENT, "`count` is 0");
    CHECK_ERROR(vicus_for_each_tile(runtime, NULL, 1, 0, 0, refuse, NULL), VICUS_ERROR_ARGUMENT, "`matrices` is null");
    CHECK_ERROR(vicus_for_each_tile(runtime, none, 1, 0, 0, refuse, NULL), VICUS_ERROR_ARGUMENT,
        "`matrices` is a null handle");
    CHECK_ERROR(vicus_for_each_tile(runtime, both, 1, 0, 0, NULL, NULL), VICUS_ERROR_ARGUMENT, "`function` is null");
    vicus_matrix_free(matrix);
    vicus_matrix_options small = VICUS_MATRIX_OPTIONS_INIT;
    small.tile_rows = 1;
    CHECK(vicus_matrix_new(NULL, 30, 4, 5, &small, &matrix) == VICUS_OK);
    const vicus_matrix *again[] = {matrix};
    CHECK_ERROR(vicus_for_each_tile(runtime, again, 1, 0, 0, refuse, NULL), 7, "a tile is refused");
    vicus_matrix_free(matrix);
    vicus_matrix_free(other);
    vicus_matrix_free(NULL);
    CHECK_ERROR(vicus_matrix_tile(NULL, NULL, NULL), VICUS_ERROR_ARGUMENT, "null handle");
}

/* ---- MapReduce ---- */

#define LINES 3000

struct result {
    char word[16];
    uint64_t count;
};

static atomic_long results_alive;

static void drop_result(void *result) {
    atomic_fetch_sub(&results_alive, 1);
    free(result);
}

/* A line has three words. */
static int32_t split(void *data, void *element, vicus_emitter *emitter) {
    const uint64_t one = 1;
    char *line = element;
    (void)data;
    for (char *word = line; *word != 0;) {
        const size_t length = strcspn(word, " ");
        const int32_t status = vicus_emit(emitter, word, length, &one, sizeof one);
        if (status != VICUS_OK) return status;
        word += length + (word[length] == ' ');
    }
    free(line);
    return VICUS_OK;
}

static int32_t count(void *data, const void *key, size_t key_bytes, vicus_values *values, void **result) {
    struct result *made = calloc(1, sizeof *made);
    (void)data;
    CHECK(made != NULL && key_bytes < sizeof made->word);
    atomic_fetch_add(&results_alive, 1);
    memcpy(made->word, key, key_bytes);
    for (;;) {
        const void *value = NULL;
        size_t bytes = 0;
        int32_t found = 0;
        uint64_t some = 0;
        const int32_t status = vicus_values_next(values, &value, &bytes, &found);
        if (status != VICUS_OK) return status;
        if (!found) break;
        CHECK(bytes == sizeof some);
        memcpy(&some, value, sizeof some);
        made->count += some;
    }
    *result = made;
    return VICUS_OK;
}

static int32_t add(void *data, void *value, size_t value_bytes, const void *next, size_t next_bytes) {
    uint64_t one = 0, other = 0;
    (void)data;
    CHECK(value_bytes == sizeof one && next_bytes == sizeof other);
    memcpy(&one, value, sizeof one);
    memcpy(&other, next, sizeof other);
    one += other;
    memcpy(value, &one, sizeof one);
    return VICUS_OK;
}

static vicus_queue *queue(vicus_drop_fn drop) {
    vicus_queue *made = NULL;
    CHECK(vicus_queue_new_near(vicus_runtime_topology(runtime), drop, &made) == VICUS_OK);
    return made;
}

static vicus_queue *lines(void) {
    vicus_queue *made = queue(free);
    const vicus_place anywhere = {VICUS_PLACE_ANYWHERE, 0};
    for (int number = 0; number < LINES; ++number) {
        char *line = malloc(64);
        CHECK(line != NULL);
        snprintf(line, 64, "all n%d m%d", number % 100, number % 7);
        CHECK(vicus_queue_push(made, anywhere, line) == VICUS_OK);
    }
    CHECK(vicus_queue_close(made) == VICUS_OK);
    return made;
}

static void words(const vicus_map_reduce *job) {
    const vicus_place anywhere = {VICUS_PLACE_ANYWHERE, 0};
    vicus_queue *input = lines(), *output = queue(drop_result);
    int keys = 0;
    CHECK(vicus_map_reduce_run(runtime, job, input, output) == VICUS_OK);
    for (;;) {
        void *found = NULL;
        int32_t is_there = 0;
        CHECK(vicus_queue_try_pop(output, anywhere, &found, &is_there) == VICUS_OK);
        if (!is_there) break;
        const struct result *result = found;
        const long number = result->word[0] == 'a' ? 0 : strtol(result->word + 1, NULL, 10);
        const uint64_t expected = result->word[0] == 'a' ? LINES : result->word[0] == 'n' ? LINES / 100
            : (uint64_t)((LINES - number + 6) / 7);
        CHECK(result->count == expected);
        ++keys;
        drop_result(found);
    }
    CHECK(keys == 1 + 100 + 7);
    vicus_queue_free(input);
    vicus_queue_free(output);
    CHECK(results_alive == 0);
}

static int32_t fail_to_map(void *data, void *element, vicus_emitter *emitter) {
    (void)data;
    (void)emitter;
    free(element);
    return vicus_fail(11, "no such line", NULL, NULL);
}

static int32_t fail_to_reduce(void *data, const void *key, size_t key_bytes, vicus_values *values, void **result) {
    (void)data;
    (void)values;
    (void)key;
    (void)key_bytes;
    *result = malloc(1);
    atomic_fetch_add(&results_alive, 1);
    return 12;
}

static int32_t fail_to_combine(void *data, void *value, size_t value_bytes, const void *next, size_t next_bytes) {
    (void)data, (void)value, (void)value_bytes, (void)next, (void)next_bytes;
    return 13;
}

static void wrong_jobs(void) {
    vicus_map_reduce job = VICUS_MAP_REDUCE_INIT;
    vicus_queue *ordered = NULL, *elsewhere = NULL, *input = lines(), *output = queue(drop_result);
    vicus_topology *other = NULL;
    CHECK(vicus_queue_new(NULL, &ordered) == VICUS_OK && vicus_topology_describe("node:3 core:2", &other) == VICUS_OK);
    CHECK(vicus_queue_new_near(other, NULL, &elsewhere) == VICUS_OK);
    CHECK_ERROR(vicus_map_reduce_run(runtime, NULL, input, output), VICUS_ERROR_ARGUMENT, "`job` is a null handle");
    CHECK_ERROR(vicus_map_reduce_run(runtime, &job, input, output), VICUS_ERROR_ARGUMENT, "`job.map` is null");
    job.map = split;
    CHECK_ERROR(vicus_map_reduce_run(runtime, &job, input, output), VICUS_ERROR_ARGUMENT, "`job.reduce` is null");
    job.reduce = count;
    CHECK_ERROR(vicus_map_reduce_run(runtime, &job, NULL, output), VICUS_ERROR_ARGUMENT, "`input` is a null handle");
    CHECK_ERROR(vicus_map_reduce_run(runtime, &job, ordered, output), VICUS_ERROR_STATE, "`input` has no places");
    CHECK_ERROR(vicus_map_reduce_run(runtime, &job, input, elsewhere), VICUS_ERROR_ARGUMENT, "another machine");
    job.folder = "/no such folder";
    CHECK_ERROR(vicus_map_reduce_run(runtime, &job, input, output), VICUS_ERROR_DATA, "no such folder");
    job.folder = NULL;
    job.size = 8;
    CHECK_ERROR(vicus_map_reduce_run(runtime, &job, input, output), VICUS_ERROR_ARGUMENT, "VICUS_MAP_REDUCE_INIT");
    job.size = sizeof job;
    /* Nothing was taken. An output that is closed takes no results. */
    CHECK(vicus_queue_close(output) == VICUS_OK);
    CHECK_ERROR(vicus_map_reduce_run(runtime, &job, input, output), VICUS_ERROR_CLOSED, "the queue for the results");
    vicus_queue_free(input);
    vicus_queue_free(output);
    CHECK(results_alive == 0);
    input = lines();
    output = queue(drop_result);
    job.map = fail_to_map;
    CHECK_ERROR(vicus_map_reduce_run(runtime, &job, input, output), 11, "no such line");
    vicus_queue_free(input);
    input = lines();
    job.map = split;
    job.reduce = fail_to_reduce;
    CHECK_ERROR(vicus_map_reduce_run(runtime, &job, input, output), 12, "status 12");
    CHECK(results_alive == 0);
    vicus_queue_free(input);
    input = lines();
    job.reduce = count;
    job.combine = fail_to_combine;
    CHECK_ERROR(vicus_map_reduce_run(runtime, &job, input, output), 13, "status 13");
    vicus_queue_free(input);
    vicus_queue_free(output);
    CHECK(results_alive == 0);
    CHECK_ERROR(vicus_emit(NULL, "a", 1, "b", 1), VICUS_ERROR_ARGUMENT, "`emitter` is a null handle");
    CHECK_ERROR(vicus_values_next(NULL, NULL, NULL, NULL), VICUS_ERROR_ARGUMENT, "`value` is null");
    vicus_queue_free(ordered);
    vicus_queue_free(elsewhere);
    vicus_topology_free(other);
}

int main(int argc, char **argv) {
    vicus_options *options = NULL;
    vicus_map_reduce job = VICUS_MAP_REDUCE_INIT;
    CHECK(argc == 3 && vicus_init() == VICUS_OK);
    CHECK(vicus_options_new(&options) == VICUS_OK && vicus_options_set(options, "strategy", argv[1]) == VICUS_OK);
    CHECK(vicus_options_set(options, "threads", argv[2]) == VICUS_OK && vicus_options_set(options, "quiet",
        "yes") == VICUS_OK);
    CHECK(vicus_runtime_start(options, &runtime) == VICUS_OK);
    vicus_options_free(options);
    for (uint32_t pattern = VICUS_PATTERN_HASH; pattern <= VICUS_PATTERN_PLACE; ++pattern) stencils(pattern % 2
        ? VICUS_BY_ROWS : VICUS_BY_TILES, pattern);
    stencils(VICUS_BY_ROWS, VICUS_PATTERN_HASH);
    arrays();
    wrong_matrices();
    job.map = split;
    job.reduce = count;
    words(&job);
    job.combine = add;
    words(&job);
    job.partitions = 3;
    /* Some pairs go to files. */
    job.combine = NULL;
    job.memory_bytes = 1;
    job.folder = "/tmp";
    words(&job);
    wrong_jobs();
    vicus_runtime_free(runtime);
    puts("ok");
    return 0;
}
