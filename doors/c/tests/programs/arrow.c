/* A network and a query in C, with Arrow's structures by hand. Arguments are a strategy and a number of threads. */
#include <stdatomic.h>
#include <vicus.h>

#include "check.h"

/* ---- the columns of one 64-bit number, and of none ---- */

static void keep_schema(struct ArrowSchema *schema) { (void)schema; }
static struct ArrowSchema number = {.format = "l", .name = "n", .release = keep_schema};
static struct ArrowSchema *columns[] = {&number};
static const struct ArrowSchema numbers = {.format = "+s", .name = "", .n_children = 1, .children = columns, .release = keep_schema};
static const struct ArrowSchema nothing = {.format = "+s", .name = "", .release = keep_schema};

/* A table of a column of numbers, in one piece of memory. */
struct table {
    struct ArrowArray column;
    struct ArrowArray *columns[1];
    const void *column_buffers[2], *buffers[1];
    int64_t values[100];
};
static atomic_int tables;

static void release_column(struct ArrowArray *column) { column->release = NULL; }
static void release_table(struct ArrowArray *array) {
    struct table *own = array->private_data;
    if (own->column.release) own->column.release(&own->column);
    free(own);
    array->release = NULL;
    atomic_fetch_sub(&tables, 1);
}

static struct ArrowArray make_table(int64_t first) {
    struct table *own = calloc(1, sizeof *own);
    CHECK(own);
    atomic_fetch_add(&tables, 1);
    for (int n = 0; n < 100; ++n) own->values[n] = first + n;
    own->column_buffers[1] = own->values;
    own->column = (struct ArrowArray){.length = 100, .n_buffers = 2, .buffers = own->column_buffers, .release = release_column};
    own->columns[0] = &own->column;
    return (struct ArrowArray){.length = 100, .n_buffers = 1, .n_children = 1, .buffers = own->buffers, .children = own->columns, .release = release_table, .private_data = own};
}

/* ---- the boxes ---- */

struct source {
    int64_t next;
};
static atomic_int sources, shared;

static int32_t create_source(void *data, void **state) {
    CHECK(data == &shared);
    struct source *own = calloc(1, sizeof *own);
    if (!own) return vicus_fail(VICUS_ERROR_NO_MEMORY, "no memory for a source", NULL, NULL);
    atomic_fetch_add(&sources, 1);
    *state = own;
    return VICUS_OK;
}
static void destroy_source(void *state) {
    free(state);
    atomic_fetch_sub(&sources, 1);
}
static int32_t run_source(void *state, vicus_turn *turn) {
    struct source *own = state;
    while (own->next < 10000) {
        if (!vicus_turn_has_room(turn, 0)) {
            vicus_turn_run_again(turn);
            return VICUS_OK;
        }
        struct ArrowArray rows = make_table(own->next);
        own->next += 100;
        const int32_t status = vicus_turn_send(turn, 0, &rows, &numbers);
        CHECK(rows.release == NULL); /* it is the library's */
        if (status) return status;
    }
    return vicus_turn_end(turn, 0);
}
static void drop_shared(void *data) { atomic_store((atomic_int *)data, 1); }

static int32_t run_sum(void *state, vicus_turn *turn) {
    struct ArrowArray rows;
    int32_t what;
    const int32_t status = vicus_turn_take(turn, 0, &rows, &what);
    if (status) return status;
    if (what == VICUS_TAKEN_END) return vicus_turn_end_all(turn);
    if (what == VICUS_TAKEN_ROWS) {
        const struct ArrowArray *column = rows.children[0];
        const int64_t *values = column->buffers[1];
        for (int64_t n = 0; n < column->length; ++n) atomic_fetch_add((atomic_long *)state, values[column->offset + n]);
        rows.release(&rows);
    }
    return VICUS_OK;
}

/* Adds up what it reads, and sets it to zero in place. */
static int32_t run_clear(void *state, vicus_turn *turn) {
    struct ArrowArray rows;
    int32_t what;
    const int32_t status = vicus_turn_take(turn, 0, &rows, &what);
    if (status) return status;
    if (what == VICUS_TAKEN_END) return vicus_turn_end_all(turn);
    if (what == VICUS_TAKEN_ROWS) {
        const struct ArrowArray *column = rows.children[0];
        int64_t *values = (int64_t *)column->buffers[1] + column->offset;
        for (int64_t n = 0; n < column->length; ++n) {
            atomic_fetch_add((atomic_long *)state, values[n]);
            values[n] = 0;
        }
        rows.release(&rows);
    }
    return VICUS_OK;
}

/* Two readers change the same column in place, each its own; a third one sees what was sent. */
static void changes(vicus_runtime *runtime) {
    atomic_long sums[3] = {0};
    vicus_network *net;
    vicus_model *model;
    vicus_request *request;
    uint32_t from, to;
    const struct ArrowSchema *one[] = {&numbers}, *none[] = {&nothing};
    const uint32_t column = 0, no_column = 1;
    vicus_operator source = VICUS_OPERATOR_INIT;
    source.create = create_source;
    source.act = run_source;
    source.destroy = destroy_source;
    source.data = &shared;
    source.drop = drop_shared;
    for (int wrong = 0; wrong < 2; ++wrong) {
        CHECK(vicus_network_new("changes", &net) == VICUS_OK);
        CHECK(vicus_network_add(net, "source", &source, NULL, 0, one, 1, &from) == VICUS_OK);
        for (int reader = 0; reader < 3; ++reader) {
            vicus_operator reads = VICUS_OPERATOR_INIT;
            reads.act = reader < 2 ? run_clear : run_sum;
            reads.data = &sums[reader];
            CHECK(vicus_network_add(net, reader == 0 ? "a" : reader == 1 ? "b" : "c", &reads, one, 1, none, 1, &to) == VICUS_OK);
            if (reader == 2) CHECK(vicus_network_connect(net, from, 0, to, 0) == VICUS_OK);
            else CHECK(vicus_network_connect_private(net, from, 0, to, 0, wrong ? &no_column : &column, 1) == VICUS_OK);
            CHECK(vicus_network_end(net, to, 0) == VICUS_OK);
        }
        CHECK(vicus_network_connect_private(net, from, 0, to, 1, NULL, 1) == VICUS_ERROR_ARGUMENT);
        CHECK(vicus_network_build(net, &model) == (wrong ? VICUS_ERROR_NETWORK : VICUS_OK));
        vicus_network_free(net);
        if (wrong) continue;
        CHECK(vicus_runtime_submit(runtime, model, 0, &request) == VICUS_OK);
        CHECK(vicus_request_wait(request) == VICUS_OK);
        for (int reader = 0; reader < 3; ++reader) CHECK(sums[reader] == 49995000);
        vicus_request_free(request);
        vicus_model_free(model);
    }
}

static void network(vicus_runtime *runtime) {
    atomic_long sum = 0;
    vicus_network *net;
    vicus_model *model;
    vicus_request *request;
    uint32_t from, to;
    const struct ArrowSchema *one[] = {&numbers}, *none[] = {&nothing};
    vicus_operator source = VICUS_OPERATOR_INIT, adds = VICUS_OPERATOR_INIT;
    source.create = create_source;
    source.act = run_source;
    source.destroy = destroy_source;
    source.data = &shared;
    source.drop = drop_shared;
    adds.act = run_sum;
    adds.data = &sum;
    CHECK(vicus_network_new("sum", &net) == VICUS_OK);
    CHECK(vicus_network_add(net, "source", &source, NULL, 0, one, 1, &from) == VICUS_OK);
    CHECK(vicus_network_add(net, "sum", &adds, one, 1, none, 1, &to) == VICUS_OK);
    CHECK(vicus_network_connect(net, from, 0, to, 0) == VICUS_OK);
    CHECK(vicus_network_end(net, to, 0) == VICUS_OK);
    CHECK(vicus_network_build(net, &model) == VICUS_OK);
    vicus_network_free(net);
    CHECK(vicus_runtime_submit(runtime, model, 0, &request) == VICUS_OK);
    CHECK(vicus_request_wait(request) == VICUS_OK && vicus_request_is_done(request));
    CHECK(sum == 49995000);
    vicus_request_free(request);
    vicus_model_free(model);
}

/* ---- rows that lead out of their memory ---- */

struct wrong_rows {
    const char *format, *problem; /* of the column, and what is said of it */
    int32_t values[4];            /* ends of texts, or keys of a dictionary */
    int is_dictionary;
};
/* A dictionary has the same texts, with right ends. */
static const int32_t right_ends[] = {0, 1, 2, 4};
static const char letters[] = "abcd";

/* Sends its rows, and fails if the library refuses them. */
static int32_t run_wrong(void *state, vicus_turn *turn) {
    const struct wrong_rows *own = state;
    const void *none[1] = {0}, *column_buffers[] = {NULL, own->values, letters}, *texts[] = {NULL, right_ends, letters};
    struct ArrowSchema terms = {.format = "u", .name = "", .release = keep_schema};
    struct ArrowSchema column = {.format = own->format, .name = "word", .release = keep_schema, .dictionary = own->is_dictionary ? &terms : NULL};
    struct ArrowSchema *parts[] = {&column};
    const struct ArrowSchema schema = {.format = "+s", .name = "", .n_children = 1, .children = parts, .release = keep_schema};
    struct ArrowArray dictionary = {.length = 3, .n_buffers = 3, .buffers = texts, .release = release_column};
    struct ArrowArray words = {.length = 3, .n_buffers = own->is_dictionary ? 2 : 3, .buffers = column_buffers, .release = release_column, .dictionary = own->is_dictionary ? &dictionary : NULL};
    struct ArrowArray *columns_of_rows[] = {&words};
    struct ArrowArray rows = {.length = 3, .n_buffers = 1, .n_children = 1, .buffers = none, .children = columns_of_rows, .release = release_column};
    const int32_t status = vicus_turn_send(turn, 0, &rows, &schema);
    CHECK(status == VICUS_ERROR_SCHEMA && rows.release == NULL);
    CHECK(strstr(vicus_error_message(), "column word: ") && strstr(vicus_error_message(), own->problem));
    return status;
}

static void wrong_rows(vicus_runtime *runtime) {
    static struct wrong_rows all[] = {
        {"u", "non-monotonic", {0, 3, 1, 4}, 0},   /* they fall */
        {"u", "offset[0] (-1)", {-1, 1, 2, 4}, 0}, /* they begin before the text */
        {"i", "out of bounds: 3", {0, 3, 1, 0}, 1}, /* a key of no value */
        {"i", "out of bounds: -1", {0, -1, 1, 0}, 1},
    };
    static struct ArrowSchema word = {.format = "u", .name = "word", .release = keep_schema};
    static struct ArrowSchema *parts[] = {&word};
    static const struct ArrowSchema words = {.format = "+s", .name = "", .n_children = 1, .children = parts, .release = keep_schema};
    const struct ArrowSchema *one[] = {&words}, *none[] = {&nothing};
    for (size_t at = 0; at < sizeof all / sizeof *all; ++at) {
        atomic_long sum = 0;
        vicus_network *net;
        vicus_model *model;
        vicus_request *request;
        uint32_t from, to;
        vicus_operator source = VICUS_OPERATOR_INIT, reads = VICUS_OPERATOR_INIT;
        source.act = run_wrong;
        source.data = &all[at];
        reads.act = run_sum;
        reads.data = &sum;
        CHECK(vicus_network_new("wrong rows", &net) == VICUS_OK);
        CHECK(vicus_network_add(net, "source", &source, NULL, 0, one, 1, &from) == VICUS_OK);
        CHECK(vicus_network_add(net, "reads", &reads, one, 1, none, 1, &to) == VICUS_OK);
        CHECK(vicus_network_connect(net, from, 0, to, 0) == VICUS_OK);
        CHECK(vicus_network_end(net, to, 0) == VICUS_OK);
        CHECK(vicus_network_build(net, &model) == VICUS_OK);
        vicus_network_free(net);
        CHECK(vicus_runtime_submit(runtime, model, 0, &request) == VICUS_OK);
        CHECK(vicus_request_wait(request) != VICUS_OK);
        CHECK(strstr(vicus_error_message(), "source") && strstr(vicus_error_message(), all[at].problem));
        CHECK(sum == 0);
        vicus_request_free(request);
        vicus_model_free(model);
    }
}

static void query(vicus_runtime *runtime) {
    static const char text[] = "<http://e/a> <http://e/p> 1 .\n<http://e/b> <http://e/p> 2 .\n";
    vicus_data *data;
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    uint64_t quads;
    CHECK(vicus_data_parse(runtime, text, sizeof text - 1, "ttl", &data) == VICUS_OK);
    CHECK(vicus_data_count(data, &quads) == VICUS_OK && quads == 2);
    CHECK(vicus_query(data, "SELECT ?s ?n { ?s <http://e/p> ?n } ORDER BY DESC(?n)", NULL, &stream) == VICUS_OK);
    vicus_data_free(data); /* the answer keeps what it reads */
    CHECK(stream.get_schema(&stream, &schema) == 0);
    CHECK(strcmp(schema.format, "+s") == 0 && schema.n_children == 2 && strcmp(schema.children[1]->name, "n") == 0);
    CHECK(strcmp(schema.children[0]->format, "i") == 0 && strcmp(schema.children[0]->dictionary->format, "u") == 0);
    schema.release(&schema);
    char seen[64] = "";
    for (;;) {
        struct ArrowArray rows;
        CHECK(stream.get_next(&stream, &rows) == 0);
        if (!rows.release) break;
        for (int64_t row = 0; row < rows.length; ++row) {
            const struct ArrowArray *column = rows.children[0], *terms = column->dictionary;
            const int32_t at = ((const int32_t *)column->buffers[1])[column->offset + row];
            const int32_t *ends = (const int32_t *)terms->buffers[1] + terms->offset;
            strncat(seen, (const char *)terms->buffers[2] + ends[at], (size_t)(ends[at + 1] - ends[at]));
        }
        rows.release(&rows);
    }
    stream.release(&stream);
    CHECK(strcmp(seen, "<http://e/b><http://e/a>") == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 3 && vicus_init() == VICUS_OK);
    vicus_options *options;
    vicus_runtime *runtime;
    CHECK(vicus_options_new(&options) == VICUS_OK);
    CHECK(vicus_options_set(options, "strategy", argv[1]) == VICUS_OK);
    CHECK(vicus_options_set(options, "threads", argv[2]) == VICUS_OK);
    CHECK(vicus_options_set(options, "quiet", "yes") == VICUS_OK);
    CHECK(vicus_runtime_start(options, &runtime) == VICUS_OK);
    vicus_options_free(options);
    wrong_rows(runtime);
    network(runtime);
    changes(runtime);
    query(runtime);
    vicus_runtime_free(runtime);
    /* All that was made is freed, once. */
    CHECK(sources == 0 && shared == 1 && tables == 0);
    puts("ok");
    return 0;
}
