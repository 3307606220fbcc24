/* Columns of every type in C: a box makes them, another one reads them as text. Each has a null in its second row, and
 * is sent whole and as a slice. Arguments are a strategy and a number of threads. */
#include <inttypes.h>
#include <stdatomic.h>
#include <vicus.h>

#include "check.h"

#define ROWS 4
#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

/* ---- the columns ---- */

struct column {
    const char *format;
    const void *buffers[3];
    int parts[2];     /* numbers of its children in `inside`, and one more; 0 where there is none */
    int terms;        /* the number of its dictionary's values in `inside`, and one more */
    int64_t n_bytes;  /* of the buffer behind its views, which are there if this is not 0 */
    int64_t length;   /* 0 stands for ROWS */
    const char *name;
};

/* A view: short texts lie in it, longer ones behind it. */
struct view {
    int32_t bytes;
    char start[4];
    int32_t buffer, at;
};
static const char behind[] = "a text beyond twelve bytes";
static const struct view views[ROWS] = {{2, "hi", 0, 0}, {0, "", 0, 0}, {26, {'a', ' ', 't', 'e'}, 0, 0},
                                        {13, {'b', 'e', 'y', 'o'}, 0, 7}};

static const uint8_t valid[] = {0x0d}, all_valid[] = {0xff}, bits[] = {0x09};
static const int8_t i8[] = {1, 0, -128, 127};
static const int16_t i16[] = {1, 0, INT16_MIN, INT16_MAX};
static const int32_t i32[] = {1, 0, INT32_MIN, INT32_MAX};
static const int64_t i64[] = {1, 0, INT64_MIN, INT64_MAX};
static const uint8_t u8[] = {1, 0, 0, 255};
static const uint16_t u16[] = {1, 0, 0, 65535};
static const uint32_t u32[] = {1, 0, 0, UINT32_MAX};
static const uint64_t u64[] = {1, 0, 0, UINT64_MAX};
static const float f32[] = {0.5f, 0, -1.5f, 1e10f};
static const double f64[] = {0.5, 0, -1.5, 1e100};
static const int32_t days[] = {0, 0, -1, 19723};
static const int64_t times[] = {0, 0, 1, 86399};
static const int32_t short_times[] = {0, 0, 1, 86399};
static const int64_t stamps[] = {0, 0, -1, 1704067200000};
/* Two halves each, the lower one first. */
static const int64_t decimals[] = {12345, 0, 0, 0, -1, -1, 0, 54210};
static const char fixed[] = "abc\0\0\0defghi";
static const int32_t ends[] = {0, 2, 2, 2, 5};
static const char letters[] = "abcde";
static const int32_t codes[] = {2, 0, 0, 2}, term_ends[] = {0, 3, 3, 9};

static const struct column inside[] = {
    {.format = "i", .buffers = {all_valid, (const int32_t[]){7, 8, -9, 10, 11}}, .length = 5, .name = "item"},
    {.format = "i", .buffers = {valid, i32}, .name = "x"},
    {.format = "u", .buffers = {all_valid, ends, letters}, .name = "word"},
    {.format = "u", .buffers = {all_valid, term_ends, "redyellow"}, .length = 3, .name = ""},
};
static const struct column columns[] = {
    {.format = "b", .buffers = {valid, bits}, .name = "bool"},
    {.format = "c", .buffers = {valid, i8}, .name = "i8"},
    {.format = "s", .buffers = {valid, i16}, .name = "i16"},
    {.format = "i", .buffers = {valid, i32}, .name = "i32"},
    {.format = "l", .buffers = {valid, i64}, .name = "i64"},
    {.format = "C", .buffers = {valid, u8}, .name = "u8"},
    {.format = "S", .buffers = {valid, u16}, .name = "u16"},
    {.format = "I", .buffers = {valid, u32}, .name = "u32"},
    {.format = "L", .buffers = {valid, u64}, .name = "u64"},
    {.format = "f", .buffers = {valid, f32}, .name = "f32"},
    {.format = "g", .buffers = {valid, f64}, .name = "f64"},
    {.format = "u", .buffers = {valid, ends, letters}, .name = "text"},
    {.format = "z", .buffers = {valid, ends, letters}, .name = "binary"},
    {.format = "vu", .buffers = {valid, views, behind}, .n_bytes = 26, .name = "view"},
    {.format = "vz", .buffers = {valid, views, behind}, .n_bytes = 26, .name = "binary view"},
    {.format = "tdD", .buffers = {valid, days}, .name = "date"},
    {.format = "tts", .buffers = {valid, short_times}, .name = "seconds of a day"},
    {.format = "ttm", .buffers = {valid, short_times}, .name = "milliseconds of a day"},
    {.format = "ttu", .buffers = {valid, times}, .name = "microseconds of a day"},
    {.format = "ttn", .buffers = {valid, times}, .name = "nanoseconds of a day"},
    {.format = "tss:", .buffers = {valid, stamps}, .name = "seconds"},
    {.format = "tsm:Europe/Prague", .buffers = {valid, stamps}, .name = "milliseconds in Prague"},
    {.format = "tsu:UTC", .buffers = {valid, stamps}, .name = "microseconds"},
    {.format = "tsn:", .buffers = {valid, stamps}, .name = "nanoseconds"},
    {.format = "tDs", .buffers = {valid, i64}, .name = "long"},
    {.format = "tDn", .buffers = {valid, i64}, .name = "short"},
    {.format = "d:38,4", .buffers = {valid, decimals}, .name = "decimal"},
    {.format = "w:3", .buffers = {valid, fixed}, .name = "three bytes"},
    {.format = "+l", .buffers = {valid, ends}, .parts = {1}, .name = "list"},
    {.format = "+s", .buffers = {valid}, .parts = {2, 3}, .name = "struct"},
    {.format = "i", .buffers = {valid, codes}, .terms = 4, .name = "dictionary"},
};

#define NULLS "- - - - - - - - - - - - - - - - - - - - - - - - - - - - - - -\n"
#define SMALLEST \
    "0 -128 -32768 -2147483648 -9223372036854775808 0 0 0 0 -1.5 -1.5 '' '' 'a text beyond twelve bytes' " \
    "'a text beyond twelve bytes' -1 1 1 1 1 -1 -1 -1 -1 -9223372036854775808 -9223372036854775808 -1:-1 " \
    "'def' [] {-2147483648 ''} 'red'\n"
#define LARGEST \
    "1 127 32767 2147483647 9223372036854775807 255 65535 4294967295 18446744073709551615 1e+10 1e+100 'cde' 'cde' " \
    "'beyond twelve' 'beyond twelve' 19723 86399 86399 86399 86399 1704067200000 1704067200000 " \
    "1704067200000 1704067200000 9223372036854775807 9223372036854775807 " \
    "54210:0 'ghi' [-9 10 11] {2147483647 'cde'} 'yellow'\n"
#define FIRST \
    "1 1 1 1 1 1 1 1 1 0.5 0.5 'ab' 'ab' 'hi' 'hi' 0 0 0 0 0 0 0 0 0 1 1 0:12345 'abc' [7 8] {1 'ab'} 'yellow'\n"

/* ---- Arrow's structures of them ---- */

static void keep_schema(struct ArrowSchema *schema) { (void)schema; }
static struct ArrowSchema inner_schemas[COUNT(inside)], schemas[COUNT(columns)];
static struct ArrowSchema *parts_of[COUNT(columns)][2], *all[COUNT(columns)];
static const struct ArrowSchema table = {.format = "+s", .name = "", .n_children = COUNT(columns), .children = all,
                                         .release = keep_schema};
static const struct ArrowSchema nothing = {.format = "+s", .name = "", .release = keep_schema};

static void describe(void) {
    for (int n = 0; n < COUNT(inside); ++n)
        inner_schemas[n] = (struct ArrowSchema){.format = inside[n].format, .name = inside[n].name,
                                                .flags = ARROW_FLAG_NULLABLE, .release = keep_schema};
    for (int n = 0; n < COUNT(columns); ++n) {
        struct ArrowSchema *schema = all[n] = &schemas[n];
        *schema = (struct ArrowSchema){.format = columns[n].format, .name = columns[n].name,
                                       .flags = ARROW_FLAG_NULLABLE, .children = parts_of[n], .release = keep_schema};
        for (; schema->n_children < 2 && columns[n].parts[schema->n_children]; ++schema->n_children)
            parts_of[n][schema->n_children] = &inner_schemas[columns[n].parts[schema->n_children] - 1];
        if (columns[n].terms) schema->dictionary = &inner_schemas[columns[n].terms - 1];
    }
}

struct part {
    struct ArrowArray array, *parts[2];
    const void *buffers[4];
    int64_t n_bytes[1];
};
struct rows {
    struct part inside[COUNT(inside)], columns[COUNT(columns)];
    struct ArrowArray *all[COUNT(columns)];
    const void *buffers[1];
};
static atomic_int tables;

static void release_part(struct ArrowArray *array) { array->release = NULL; }
static void release_rows(struct ArrowArray *array) {
    free(array->private_data);
    array->release = NULL;
    atomic_fetch_sub(&tables, 1);
}

static void fill(struct part *part, const struct column *column, int64_t offset) {
    const char *format = column->format;
    const int64_t length = column->length ? column->length : ROWS;
    int n_buffers = *format == 'u' || *format == 'z' ? 3 : strcmp(format, "+s") == 0 ? 1 : 2;
    memcpy(part->buffers, column->buffers, sizeof column->buffers);
    if (column->n_bytes) {
        n_buffers = 4;
        part->n_bytes[0] = column->n_bytes;
        part->buffers[3] = part->n_bytes;
    }
    part->array = (struct ArrowArray){.length = length - offset, .null_count = -1, .offset = offset,
                                       .n_buffers = n_buffers, .buffers = part->buffers, .children = part->parts,
                                       .release = release_part};
}

/* The rows from one on. */
static struct ArrowArray make(int64_t offset) {
    struct rows *own = calloc(1, sizeof *own);
    CHECK(own);
    atomic_fetch_add(&tables, 1);
    for (int n = 0; n < COUNT(inside); ++n) fill(&own->inside[n], &inside[n], 0);
    for (int n = 0; n < COUNT(columns); ++n) {
        struct ArrowArray *array = own->all[n] = &own->columns[n].array;
        fill(&own->columns[n], &columns[n], offset);
        for (; array->n_children < 2 && columns[n].parts[array->n_children]; ++array->n_children)
            array->children[array->n_children] = &own->inside[columns[n].parts[array->n_children] - 1].array;
        if (columns[n].terms) array->dictionary = &own->inside[columns[n].terms - 1].array;
    }
    return (struct ArrowArray){.length = ROWS - offset, .n_buffers = 1, .buffers = own->buffers,
                               .n_children = COUNT(columns), .children = own->all,
                               .release = release_rows, .private_data = own};
}

/* ---- values as text ---- */

struct text {
    char bytes[8192];
    size_t length;
};

static void say(struct text *text, const char *format, int64_t number) {
    text->length += (size_t)snprintf(text->bytes + text->length, sizeof text->bytes - text->length, format, number);
    CHECK(text->length < sizeof text->bytes);
}
static void quote(struct text *text, const char *bytes, int64_t length) {
    say(text, "'", 0);
    for (int64_t n = 0; n < length; ++n) say(text, (char[]){bytes[n], 0}, 0);
    say(text, "'", 0);
}

static void show(struct text *text, const struct ArrowArray *array, const struct ArrowSchema *schema, int64_t row) {
    const char *format = schema->format;
    const int64_t at = row + array->offset;
    const uint8_t *known = array->buffers[0];
    const void *values = array->n_buffers > 1 ? array->buffers[1] : NULL;
    const int32_t *starts = values;
    if (known && !(known[at / 8] >> at % 8 & 1)) say(text, "-", 0);
    else if (schema->dictionary) show(text, array->dictionary, schema->dictionary, ((const int32_t *)values)[at]);
    else if (strcmp(format, "+s") == 0) {
        for (int64_t n = 0; n < array->n_children; ++n) {
            say(text, n ? " " : "{", 0);
            show(text, array->children[n], schema->children[n], at);
        }
        say(text, "}", 0);
    } else if (strcmp(format, "+l") == 0) {
        say(text, "[", 0);
        for (int32_t n = starts[at]; n < starts[at + 1]; ++n) {
            if (n > starts[at]) say(text, " ", 0);
            show(text, array->children[0], schema->children[0], n);
        }
        say(text, "]", 0);
    } else if (*format == 'v') {
        const struct view *view = (const struct view *)values + at;
        const char *far = view->bytes > 12 ? (const char *)array->buffers[2 + view->buffer] + view->at : NULL;
        quote(text, far ? far : view->start, view->bytes);
    } else if (*format == 'u' || *format == 'z')
        quote(text, (const char *)array->buffers[2] + starts[at], starts[at + 1] - starts[at]);
    else if (*format == 'w') quote(text, (const char *)values + 3 * at, 3);
    else if (*format == 'b') say(text, "%" PRId64, ((const uint8_t *)values)[at / 8] >> at % 8 & 1);
    else if (*format == 'c') say(text, "%" PRId64, ((const int8_t *)values)[at]);
    else if (*format == 's') say(text, "%" PRId64, ((const int16_t *)values)[at]);
    else if (*format == 'C') say(text, "%" PRId64, ((const uint8_t *)values)[at]);
    else if (*format == 'S') say(text, "%" PRId64, ((const uint16_t *)values)[at]);
    else if (*format == 'I') say(text, "%" PRId64, ((const uint32_t *)values)[at]);
    else if (*format == 'L') say(text, "%" PRIu64, (int64_t)((const uint64_t *)values)[at]);
    else if (*format == 'd') {
        say(text, "%" PRId64 ":", ((const int64_t *)values)[2 * at + 1]);
        say(text, "%" PRId64, ((const int64_t *)values)[2 * at]);
    } else if (*format == 'f' || *format == 'g') {
        char number[32];
        const double value = *format == 'f' ? (double)((const float *)values)[at] : ((const double *)values)[at];
        CHECK(snprintf(number, sizeof number, "%g", value) < (int)sizeof number);
        say(text, number, 0);
    } else if (*format == 'i' || strcmp(format, "tdD") == 0 || strcmp(format, "tts") == 0 || strcmp(format, "ttm") == 0)
        say(text, "%" PRId64, ((const int32_t *)values)[at]);
    else say(text, "%" PRId64, ((const int64_t *)values)[at]);
}

/* ---- the boxes ---- */

static int32_t run_source(void *state, vicus_turn *turn) {
    (void)state;
    for (int64_t offset = 0; offset < 2; ++offset) {
        struct ArrowArray rows = make(offset);
        const int32_t status = vicus_turn_send(turn, 0, &rows, &table);
        CHECK(rows.release == NULL);
        if (status) return status;
    }
    return vicus_turn_end(turn, 0);
}

static int32_t run_reader(void *state, vicus_turn *turn) {
    struct ArrowArray rows;
    int32_t what;
    const int32_t status = vicus_turn_take(turn, 0, &rows, &what);
    if (status) return status;
    if (what == VICUS_TAKEN_END) return vicus_turn_end_all(turn);
    if (what != VICUS_TAKEN_ROWS) return VICUS_OK;
    CHECK(rows.n_children == COUNT(columns));
    for (int64_t row = 0; row < rows.length; ++row) {
        for (int n = 0; n < COUNT(columns); ++n) {
            if (n) say(state, " ", 0);
            show(state, rows.children[n], &schemas[n], row);
        }
        say(state, "\n", 0);
    }
    rows.release(&rows);
    return VICUS_OK;
}

static void every_type(vicus_runtime *runtime) {
    struct text read = {.length = 0};
    vicus_network *net;
    vicus_model *model;
    vicus_request *request;
    uint32_t from, to;
    const struct ArrowSchema *one[] = {&table}, *none[] = {&nothing};
    vicus_operator source = VICUS_OPERATOR_INIT, reader = VICUS_OPERATOR_INIT;
    source.act = run_source;
    reader.act = run_reader;
    reader.data = &read;
    CHECK(vicus_network_new("every type", &net) == VICUS_OK);
    CHECK(vicus_network_add(net, "source", &source, NULL, 0, one, 1, &from) == VICUS_OK);
    CHECK(vicus_network_add(net, "reader", &reader, one, 1, none, 1, &to) == VICUS_OK);
    CHECK(vicus_network_connect(net, from, 0, to, 0) == VICUS_OK);
    CHECK(vicus_network_end(net, to, 0) == VICUS_OK);
    CHECK(vicus_network_build(net, &model) == VICUS_OK);
    vicus_network_free(net);
    CHECK(vicus_runtime_submit(runtime, model, 0, &request) == VICUS_OK);
    CHECK(vicus_request_wait(request) == VICUS_OK);
    vicus_request_free(request);
    vicus_model_free(model);
    static const char expected[] = FIRST NULLS SMALLEST LARGEST NULLS SMALLEST LARGEST;
    if (strcmp(read.bytes, expected) != 0) fprintf(stderr, "read:\n%s\nexpected:\n%s\n", read.bytes, expected);
    CHECK(strcmp(read.bytes, expected) == 0);
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
    describe();
    every_type(runtime);
    vicus_runtime_free(runtime);
    CHECK(tables == 0); /* each was released, once */
    puts("ok");
    return 0;
}
