/* What a program does wrong is told by a status and a message, and ends nothing. */
#include <threads.h>
#include <vicus.h>

#include "check.h"

static int32_t nothing(void *data) {
    (void)data;
    return VICUS_OK;
}
static int32_t five(void *data) {
    (void)data;
    return 5;
}
static int drops;
static void drop(void *data) {
    (void)data;
    ++drops;
}
static int32_t piece(void *data, size_t begin, size_t end) {
    (void)data, (void)begin, (void)end;
    return VICUS_OK;
}

static int foreign(void *scope) {
    CHECK(vicus_scope_spawn(scope, nothing, NULL, drop) == VICUS_ERROR_STATE);
    CHECK(strstr(vicus_error_message(), "its own closure or by its tasks") != NULL);
    CHECK(vicus_is_in_task() == 0 && vicus_is_cancelled() == 0);
    return 0;
}

static int32_t scope(vicus_scope *own, void *data) {
    (void)data;
    drops = 0;
    CHECK_ERROR(vicus_scope_spawn(own, NULL, NULL, drop), VICUS_ERROR_ARGUMENT, "`function` is null");
    CHECK(drops == 1);
    vicus_task_options options = VICUS_TASK_OPTIONS_INIT;
    options.place = (vicus_place){VICUS_PLACE_NODE, 1000};
    CHECK_ERROR(vicus_scope_spawn_with(own, nothing, NULL, drop, &options), VICUS_ERROR_STATE, "node1000");
    options.place = (vicus_place){17, 0};
    CHECK_ERROR(vicus_scope_spawn_with(own, nothing, NULL, drop, &options), VICUS_ERROR_ARGUMENT, "17");
    options.place = (vicus_place){VICUS_PLACE_ANYWHERE, 0};
    options.size = 8;
    CHECK_ERROR(vicus_scope_spawn_with(own, nothing, NULL, drop, &options), VICUS_ERROR_ARGUMENT, "VICUS_TASK_OPTIONS_INIT");
    options.size = sizeof options;
    options.flags = 1u << 31;
    CHECK_ERROR(vicus_scope_spawn_with(own, nothing, NULL, drop, &options), VICUS_ERROR_ARGUMENT, "flag");
    options.flags = 0;
    options.follows_count = 1;
    CHECK_ERROR(vicus_scope_spawn_with(own, nothing, NULL, drop, &options), VICUS_ERROR_ARGUMENT, "`follows` is null");
    vicus_access access = {&drops, 4, 2, 1, VICUS_READ, 0};
    options.follows = &access;
    CHECK_ERROR(vicus_scope_spawn_with(own, nothing, NULL, drop, &options), VICUS_ERROR_ARGUMENT, "stride");
    access = (vicus_access){&drops, 4, 0, 0, 9, 0};
    CHECK_ERROR(vicus_scope_spawn_with(own, nothing, NULL, drop, &options), VICUS_ERROR_ARGUMENT, "mode");
    CHECK(drops == 8); /* each time the data is freed */
    CHECK_ERROR(vicus_group_close(), VICUS_ERROR_STATE, "open_group");
    thrd_t other;
    CHECK(thrd_create(&other, foreign, own) == thrd_success);
    thrd_join(other, NULL);
    return VICUS_OK;
}

int main(void) {
    vicus_topology *topology = NULL;
    vicus_runtime *runtime = NULL;
    vicus_options *options = NULL;
    /* Before, and with another version. */
    CHECK_ERROR(vicus_topology_discover(&topology), VICUS_ERROR_VERSION, "vicus_init");
    CHECK_ERROR(vicus_runtime_start(NULL, &runtime), VICUS_ERROR_VERSION, "vicus_init");
    CHECK_ERROR(vicus_run(NULL, nothing, NULL), VICUS_ERROR_VERSION, "vicus_init");
    CHECK_ERROR(vicus_init_with(20000, VICUS_ABI_VERSION), VICUS_ERROR_VERSION, "vicus.h 2.0.0 (ABI 2), and the library is ");
    CHECK(strstr(vicus_error_message(), vicus_version()) != NULL);
    CHECK_ERROR(vicus_init_with(VICUS_VERSION, VICUS_ABI_VERSION + 1), VICUS_ERROR_VERSION, "(ABI 3)");
    CHECK_ERROR(vicus_runtime_start(NULL, &runtime), VICUS_ERROR_VERSION, "vicus_init");
    CHECK(vicus_init() == VICUS_OK);
    CHECK(vicus_version_number() == VICUS_VERSION && vicus_abi_version() == VICUS_ABI_VERSION);

    /* Null handles, outputs and texts. */
    CHECK_ERROR(vicus_topology_discover(NULL), VICUS_ERROR_ARGUMENT, "`topology` is null");
    CHECK_ERROR(vicus_topology_describe(NULL, &topology), VICUS_ERROR_ARGUMENT, "`description` is null");
    CHECK_ERROR(vicus_topology_describe("no such machine", &topology), VICUS_ERROR_SETTING, "no such machine");
    CHECK_ERROR(vicus_topology_describe("\xff\xfe", &topology), VICUS_ERROR_ARGUMENT, "UTF-8");
    CHECK(vicus_topology_count(NULL, VICUS_PU) == 0 && vicus_topology_print(NULL, NULL, 0) == 0);
    CHECK_ERROR(vicus_topology_pu(NULL, 0, NULL, NULL, NULL), VICUS_ERROR_ARGUMENT, "null handle");
    CHECK_ERROR(vicus_options_new(NULL), VICUS_ERROR_ARGUMENT, "`options` is null");
    CHECK_ERROR(vicus_options_set(NULL, "threads", "2"), VICUS_ERROR_ARGUMENT, "null handle");
    CHECK_ERROR(vicus_runtime_start(NULL, NULL), VICUS_ERROR_ARGUMENT, "`runtime` is null");
    CHECK_ERROR(vicus_request_wait(NULL), VICUS_ERROR_ARGUMENT, "`request` is a null handle");
    CHECK(vicus_runtime_threads(NULL) == 0 && vicus_runtime_topology(NULL) == NULL && vicus_request_is_done(NULL) == 0);
    vicus_topology_free(NULL), vicus_options_free(NULL), vicus_runtime_free(NULL), vicus_request_free(NULL);
    vicus_request_cancel(NULL), vicus_scope_cancel(NULL);
    CHECK_ERROR(vicus_scope_spawn(NULL, nothing, NULL, drop), VICUS_ERROR_ARGUMENT, "`scope` is a null handle");
    CHECK_ERROR(vicus_run(NULL, NULL, NULL), VICUS_ERROR_ARGUMENT, "`function` is null");
    CHECK_ERROR(vicus_for_each(NULL, 0, 1, NULL, NULL), VICUS_ERROR_ARGUMENT, "`function` is null");
    CHECK_ERROR(vicus_reduce(NULL, 0, 1, NULL, NULL, NULL, NULL, 8), VICUS_ERROR_ARGUMENT, "`function` is null");
    CHECK_ERROR(vicus_runtime_trace(NULL, "/tmp/x"), VICUS_ERROR_ARGUMENT, "null handle");
    CHECK(vicus_for_each(NULL, 10, 0, piece, NULL) == VICUS_OK); /* an empty range */

    /* Outside of tasks. */
    drops = 0;
    CHECK_ERROR(vicus_spawn(nothing, NULL, drop, NULL), VICUS_ERROR_STATE, "in a task");
    CHECK(drops == 1);
    CHECK_ERROR(vicus_wait(), VICUS_ERROR_STATE, "in a task");
    CHECK_ERROR(vicus_group_open(), VICUS_ERROR_STATE, "in a task");
    CHECK_ERROR(vicus_group_close(), VICUS_ERROR_STATE, "in a task");
    CHECK_ERROR(vicus_group_cancel(), VICUS_ERROR_STATE, "in a task");

    /* Settings. */
    CHECK(vicus_options_new(&options) == VICUS_OK);
    CHECK_ERROR(vicus_options_set(options, "strategy", "none"), VICUS_ERROR_SETTING, "there is no strategy `none`");
    CHECK_ERROR(vicus_options_set(options, "strategy", "las:depth=1"), VICUS_ERROR_SETTING, "strategy");
    CHECK_ERROR(vicus_options_set(options, "threads", "0"), VICUS_ERROR_SETTING, "at least one");
    CHECK_ERROR(vicus_options_set(options, "threads", "many"), VICUS_ERROR_SETTING, "many");
    CHECK_ERROR(vicus_options_set(options, "colour", "red"), VICUS_ERROR_SETTING, "threads, strategy");
    CHECK_ERROR(vicus_options_set(options, "allocator", "mine"), VICUS_ERROR_SETTING, "system");
    CHECK_ERROR(vicus_options_set(options, "distribution", "on:x"), VICUS_ERROR_SETTING, "location");
    CHECK_ERROR(vicus_options_set(options, NULL, "x"), VICUS_ERROR_ARGUMENT, "`name` is null");
    CHECK(vicus_options_set(options, "threads", "1000000") == VICUS_OK);
    CHECK_ERROR(vicus_runtime_start(options, &runtime), VICUS_ERROR_SYSTEM, "threads");
    CHECK(runtime == NULL);
    CHECK(vicus_options_set(options, "threads", "2") == VICUS_OK);
    CHECK(vicus_options_set(options, "topology", "node:2 core:2") == VICUS_OK);
    CHECK(vicus_options_set(options, "quiet", "yes") == VICUS_OK);
    CHECK(vicus_runtime_start(options, &runtime) == VICUS_OK);
    const vicus_topology *of_runtime = vicus_runtime_topology(runtime);
    CHECK(vicus_topology_count(of_runtime, VICUS_NODE) == 2 && vicus_topology_count(of_runtime, VICUS_CORE) == 4);
    CHECK(vicus_topology_count(of_runtime, 99) == 0);
    uint32_t core, group, node, distance;
    CHECK(vicus_topology_pu(of_runtime, 3, &core, &group, &node) == VICUS_OK && core == 3 && node == 1);
    CHECK_ERROR(vicus_topology_pu(of_runtime, 4, &core, NULL, NULL), VICUS_ERROR_ARGUMENT, "only 4");
    CHECK(vicus_topology_distance(of_runtime, (vicus_place){VICUS_PLACE_NODE, 0}, (vicus_place){VICUS_PLACE_NODE, 1}, &distance) == VICUS_OK);
    CHECK(distance > 10);
    CHECK_ERROR(vicus_topology_distance(of_runtime, (vicus_place){VICUS_PLACE_NODE, 2}, (vicus_place){VICUS_PLACE_NODE, 1}, &distance),
                VICUS_ERROR_ARGUMENT, "there is no node 2");
    CHECK_ERROR(vicus_topology_distance(of_runtime, (vicus_place){0, 0}, (vicus_place){VICUS_PLACE_NODE, 1}, &distance),
                VICUS_ERROR_ARGUMENT, "not anywhere");
    /* A text that does not fit is cut, and its length told. */
    char text[9];
    size_t whole = vicus_topology_print(of_runtime, text, sizeof text);
    CHECK(whole > 9 && strlen(text) == 8 && vicus_topology_print(of_runtime, NULL, 0) == whole);

    CHECK(vicus_scope_run(runtime, scope, NULL) == VICUS_OK);
    /* A callback's number without a message. */
    CHECK_ERROR(vicus_run(runtime, five, NULL), 5, "status 5");
    CHECK_ERROR(vicus_runtime_trace(runtime, "/tmp/x"), VICUS_ERROR_STATE, "`events`");

    runtime = NULL;
    CHECK_ERROR(vicus_options_set(options, "events_roll", "perhaps"), VICUS_ERROR_SETTING, "events_roll");
    CHECK_ERROR(vicus_options_set(options, "events_last_ms", "0"), VICUS_ERROR_SETTING, "events_last_ms");
    CHECK(vicus_options_set(options, "events", "1000") == VICUS_OK);
    CHECK(vicus_runtime_start(options, &runtime) == VICUS_OK);
    CHECK(vicus_run(runtime, nothing, NULL) == VICUS_OK);
    CHECK_ERROR(vicus_runtime_trace(runtime, "/no/such/folder/trace"), VICUS_ERROR_SYSTEM, "/no/such/folder");
    vicus_options_free(options);
    puts("ok");
    return 0;
}
