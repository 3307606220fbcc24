/* Tasks in C: arguments are a strategy and a number of threads. */
#include <stdatomic.h>
#include <threads.h>
#include <vicus.h>

#include "check.h"

static vicus_runtime *runtime;
static atomic_size_t count;
static atomic_size_t dropped;

static int32_t add(void *number) {
    atomic_fetch_add(&count, (size_t)(uintptr_t)number);
    return VICUS_OK;
}

static void drop(void *data) {
    (void)data;
    atomic_fetch_add(&dropped, 1);
}

static int32_t fail_seven(void *message) { return vicus_fail(7, message, NULL, NULL); }

/* ---- loops ---- */

static int32_t fill(void *data, size_t begin, size_t end) {
    for (size_t n = begin; n < end; ++n) ((unsigned char *)data)[n] += 1;
    return VICUS_OK;
}

static int32_t fail_in_loop(void *data, size_t begin, size_t end) {
    (void)data;
    return begin <= 500 && 500 < end ? fail_seven("at 500") : VICUS_OK;
}

static int32_t sum_map(void *data, size_t begin, size_t end, void *value) {
    CHECK((uintptr_t)value % 16 == 0);
    for (size_t n = begin; n < end; ++n) *(double *)value += ((double *)data)[n];
    return VICUS_OK;
}

static int32_t sum_combine(void *data, void *value, const void *next) {
    (void)data;
    *(double *)value += *(const double *)next;
    return VICUS_OK;
}

static void loops(void) {
    unsigned char seen[1000] = {0};
    CHECK(vicus_for_each(runtime, 0, 1000, fill, seen) == VICUS_OK);
    CHECK(vicus_for_each(runtime, 10, 10, fill, seen) == VICUS_OK);
    for (size_t n = 0; n < 1000; ++n) CHECK(seen[n] == 1);
    CHECK_ERROR(vicus_for_each(runtime, 0, 1000, fail_in_loop, NULL), 7, "at 500");

    double numbers[1000], before = 0;
    for (int n = 0; n < 1000; ++n) numbers[n] = 1.0 / (n + 1);
    for (int round = 0; round < 5; ++round) {
        double value = 0;
        CHECK(vicus_reduce(runtime, 0, 1000, sum_map, sum_combine, numbers, &value, sizeof value) == VICUS_OK);
        CHECK(value > 7.485470 && value < 7.485471);
        CHECK(round == 0 || value == before); /* to the last bit */
        before = value;
    }
}

static int32_t on_thread(void *data, uint32_t thread, uint32_t threads) {
    CHECK(threads == vicus_runtime_threads(runtime));
    atomic_fetch_or((atomic_uint *)data, 1u << thread);
    return VICUS_OK;
}

/* ---- scopes ---- */

struct fibonacci {
    int n;
    long value;
};

static int32_t fibonacci(void *data) {
    struct fibonacci *own = data;
    if (own->n < 2) {
        own->value = own->n;
        return VICUS_OK;
    }
    struct fibonacci a = {own->n - 1, 0}, b = {own->n - 2, 0};
    CHECK(vicus_join(NULL, fibonacci, &a, fibonacci, &b) == VICUS_OK);
    own->value = a.value + b.value;
    return VICUS_OK;
}

static int32_t spawn_many(vicus_scope *scope, void *data) {
    (void)data;
    for (int n = 0; n < 100; ++n) CHECK(vicus_scope_spawn(scope, add, (void *)(uintptr_t)1, drop) == VICUS_OK);
    return VICUS_OK;
}

struct nested {
    vicus_scope *scope;
    int depth;
};

static int32_t spawn_nested(void *data) {
    struct nested *own = data;
    atomic_fetch_add(&count, 1);
    if (own->depth == 0) return VICUS_OK;
    for (int n = 0; n < 2; ++n) {
        struct nested *next = malloc(sizeof *next);
        *next = (struct nested){own->scope, own->depth - 1};
        CHECK(vicus_scope_spawn(own->scope, spawn_nested, next, free) == VICUS_OK);
    }
    return VICUS_OK;
}

static int32_t nest(vicus_scope *scope, void *data) {
    (void)data;
    struct nested *first = malloc(sizeof *first);
    *first = (struct nested){scope, 6};
    return vicus_scope_spawn(scope, spawn_nested, first, free);
}

/* Each step doubles and adds one: in any other order the result is another one. */
static int32_t step(void *value) {
    *(unsigned *)value = *(unsigned *)value * 2 + 1;
    return VICUS_OK;
}

static int32_t ordered(vicus_scope *scope, void *data) {
    unsigned *values = data;
    for (int round = 0; round < 10; ++round) {
        for (int at = 0; at < 4; ++at) {
            vicus_access access = {&values[at], sizeof *values, 1, 0, VICUS_READ_WRITE, 0};
            vicus_task_options options = VICUS_TASK_OPTIONS_INIT;
            options.follows = &access;
            options.follows_count = 1;
            if (round % 3 == 1) options.place = (vicus_place){VICUS_PLACE_NODE, 0};
            if (round % 3 == 2) options.flags = VICUS_TASK_DEFERRED;
            CHECK(vicus_scope_spawn_with(scope, step, &values[at], drop, &options) == VICUS_OK);
        }
    }
    return VICUS_OK;
}

/* Members of a set that commute change the number without atomic operations; those that are concurrent do it with them. A reader in between sees all. */
struct sums {
    unsigned commuting;
    atomic_uint concurrent;
    atomic_int within, wrong;
};

static int32_t commute(void *data) {
    struct sums *own = data;
    if (atomic_fetch_add(&own->within, 1) != 0) atomic_store(&own->wrong, 1);
    unsigned now = own->commuting;
    thrd_yield();
    own->commuting = now + 1;
    atomic_fetch_sub(&own->within, 1);
    return VICUS_OK;
}

static int32_t add_beside(void *data) {
    atomic_fetch_add(&((struct sums *)data)->concurrent, 1);
    return VICUS_OK;
}

static int32_t look_at_all(void *data) {
    struct sums *own = data;
    if (own->commuting % 20 != 0 || atomic_load(&own->concurrent) % 20 != 0) atomic_store(&own->wrong, 2);
    return VICUS_OK;
}

static int32_t sets(vicus_scope *scope, void *data) {
    struct sums *own = data;
    vicus_access commuting = {&own->commuting, sizeof own->commuting, 1, 0, VICUS_COMMUTATIVE, 0};
    vicus_access concurrent = {&own->concurrent, sizeof own->concurrent, 1, 0, VICUS_CONCURRENT, 0};
    vicus_access all[] = {commuting, concurrent};
    all[0].mode = all[1].mode = VICUS_READ;
    for (int round = 0; round < 5; ++round) {
        vicus_task_options options = VICUS_TASK_OPTIONS_INIT;
        options.follows_count = 1;
        for (int at = 0; at < 20; ++at) {
            options.follows = &commuting;
            CHECK(vicus_scope_spawn_with(scope, commute, own, NULL, &options) == VICUS_OK);
            options.follows = &concurrent;
            CHECK(vicus_scope_spawn_with(scope, add_beside, own, NULL, &options) == VICUS_OK);
        }
        options.follows = all;
        options.follows_count = 2;
        CHECK(vicus_scope_spawn_with(scope, look_at_all, own, NULL, &options) == VICUS_OK);
    }
    return VICUS_OK;
}

static int32_t fails(vicus_scope *scope, void *data) {
    (void)data;
    for (int n = 0; n < 10; ++n) CHECK(vicus_scope_spawn(scope, n == 5 ? fail_seven : add, "in a scope", NULL) == VICUS_OK);
    return VICUS_OK;
}

static int32_t body_fails(vicus_scope *scope, void *data) {
    CHECK(vicus_scope_spawn(scope, add, data, drop) == VICUS_OK);
    return vicus_fail(9, "the body", NULL, NULL);
}

static int32_t wait_for_cancel(void *data) {
    atomic_store((atomic_int *)data, 1);
    while (!vicus_is_cancelled()) thrd_yield();
    return VICUS_OK;
}

struct cancelled {
    atomic_int begun;
};

static int32_t cancel_scope(vicus_scope *scope, void *data) {
    struct cancelled *own = data;
    vicus_scope_cancel(scope);
    for (int n = 0; n < 20; ++n) CHECK(vicus_scope_spawn(scope, wait_for_cancel, &own->begun, drop) == VICUS_OK);
    return VICUS_OK;
}

static void scopes(void) {
    struct fibonacci f = {18, 0};
    CHECK(vicus_run(runtime, fibonacci, &f) == VICUS_OK);
    CHECK(f.value == 2584);

    count = 0;
    dropped = 0;
    CHECK(vicus_scope_run(runtime, spawn_many, NULL) == VICUS_OK);
    CHECK(count == 100 && dropped == 100);
    count = 0;
    CHECK(vicus_scope_run(runtime, nest, NULL) == VICUS_OK);
    CHECK(count == 127);

    unsigned values[4] = {0}, expected = 0;
    for (int round = 0; round < 10; ++round) expected = expected * 2 + 1;
    dropped = 0;
    CHECK(vicus_scope_run(runtime, ordered, values) == VICUS_OK);
    struct sums sums = {0};
    CHECK(vicus_scope_run(runtime, sets, &sums) == VICUS_OK);
    CHECK(sums.commuting == 100 && sums.concurrent == 100 && sums.wrong == 0);
    for (int at = 0; at < 4; ++at) CHECK(values[at] == expected);
    CHECK(dropped == 40);

    CHECK_ERROR(vicus_scope_run(runtime, fails, NULL), 7, "in a scope");
    dropped = 0;
    CHECK_ERROR(vicus_scope_run(runtime, body_fails, NULL), 9, "the body");
    CHECK(dropped == 1);
    CHECK_ERROR(vicus_join(runtime, add, NULL, fail_seven, "the second"), 7, "the second");
    CHECK_ERROR(vicus_run(runtime, fail_seven, "alone"), 7, "alone");

    struct cancelled c = {0};
    dropped = 0;
    CHECK(vicus_scope_run(runtime, cancel_scope, &c) == VICUS_OK);
    CHECK(dropped == 20 && c.begun == 0);
}

/* ---- children ---- */

static int32_t child_of_child(void *data) {
    for (int n = 0; n < 3; ++n) CHECK(vicus_spawn(add, data, drop, NULL) == VICUS_OK);
    return VICUS_OK;
}

static int32_t children(void *data) {
    for (int n = 0; n < 10; ++n) CHECK(vicus_spawn(add, data, drop, NULL) == VICUS_OK);
    CHECK(vicus_wait() == VICUS_OK);
    CHECK(count == 10);

    CHECK(vicus_group_open() == VICUS_OK);
    for (int n = 0; n < 10; ++n) CHECK(vicus_spawn(child_of_child, data, drop, NULL) == VICUS_OK);
    CHECK(vicus_group_close() == VICUS_OK);
    CHECK(count == 40);

    CHECK(vicus_spawn(fail_seven, "a child", NULL, NULL) == VICUS_OK);
    CHECK_ERROR(vicus_wait(), 7, "a child");
    CHECK(vicus_group_open() == VICUS_OK);
    CHECK(vicus_spawn(fail_seven, "in a group", NULL, NULL) == VICUS_OK);
    CHECK_ERROR(vicus_group_close(), 7, "in a group");

    /* What has not begun is dropped, and its data is freed all the same. */
    atomic_int begun = 0;
    size_t before = dropped;
    CHECK(vicus_group_open() == VICUS_OK);
    for (int n = 0; n < 50; ++n) CHECK(vicus_spawn(wait_for_cancel, &begun, drop, NULL) == VICUS_OK);
    CHECK(vicus_group_cancel() == VICUS_OK);
    CHECK(vicus_group_close() == VICUS_OK);
    CHECK(dropped - before == 50);

    unsigned value = 0;
    vicus_access access = {&value, sizeof value, 0, 0, VICUS_READ_WRITE, VICUS_ACCESS_INTENSE};
    vicus_task_options options = VICUS_TASK_OPTIONS_INIT;
    options.follows = &access;
    options.follows_count = 1;
    for (int n = 0; n < 10; ++n) {
        options.flags = VICUS_TASK_PRIORITY;
        options.priority = n;
        CHECK(vicus_spawn(step, &value, NULL, &options) == VICUS_OK);
    }
    CHECK(vicus_wait() == VICUS_OK);
    CHECK(value == 1023);
    CHECK(vicus_spawn(add, data, drop, NULL) == VICUS_OK); /* the run waits for it */
    return VICUS_OK;
}

/* ---- requests ---- */

static int32_t yields(void *data) {
    atomic_store((atomic_int *)data, 1);
    while (atomic_load((atomic_int *)data) != 2) thrd_yield();
    return VICUS_OK;
}

static int waits(void *request) { return vicus_request_wait(request); }

static void requests(void) {
    vicus_request *request = NULL;
    count = 0;
    dropped = 0;
    CHECK(vicus_runtime_spawn(runtime, add, (void *)(uintptr_t)5, drop, &request) == VICUS_OK);
    CHECK(vicus_request_wait(request) == VICUS_OK && vicus_request_wait(request) == VICUS_OK);
    CHECK(vicus_request_is_done(request) && count == 5 && dropped == 1);
    vicus_request_free(request);

    CHECK(vicus_runtime_spawn(runtime, fail_seven, "a request", NULL, &request) == VICUS_OK);
    CHECK_ERROR(vicus_request_wait(request), 7, "a request");
    CHECK_ERROR(vicus_request_wait(request), 7, "a request");
    vicus_request_free(request);

    /* Two threads wait for a request, and a third cancels another one that does not end by itself. */
    atomic_int state = 0;
    CHECK(vicus_runtime_spawn(runtime, yields, &state, NULL, &request) == VICUS_OK);
    thrd_t waiting[2];
    for (int n = 0; n < 2; ++n) CHECK(thrd_create(&waiting[n], waits, request) == thrd_success);
    while (state != 1) thrd_yield();
    CHECK(!vicus_request_is_done(request));
    state = 2;
    for (int n = 0; n < 2; ++n) {
        int status = 1;
        thrd_join(waiting[n], &status);
        CHECK(status == VICUS_OK);
    }
    vicus_request_free(request);

    state = 0;
    CHECK(vicus_runtime_spawn(runtime, wait_for_cancel, &state, NULL, &request) == VICUS_OK);
    while (state != 1) thrd_yield();
    vicus_request_cancel(request);
    CHECK(vicus_request_wait(request) == VICUS_OK);
    vicus_request_free(request);
    CHECK(vicus_runtime_spawn(runtime, add, (void *)(uintptr_t)1, drop, NULL) == VICUS_OK);
}

/* Threads of the program's own call at the same time. */
static int foreign(void *data) {
    (void)data;
    for (int round = 0; round < 20; ++round) {
        struct fibonacci f = {10, 0};
        CHECK(vicus_run(runtime, fibonacci, &f) == VICUS_OK);
        CHECK(f.value == 55);
        unsigned char seen[100] = {0};
        CHECK(vicus_for_each(runtime, 0, 100, fill, seen) == VICUS_OK);
        for (int n = 0; n < 100; ++n) CHECK(seen[n] == 1);
        CHECK_ERROR(vicus_run(runtime, fail_seven, "a thread's own"), 7, "a thread's own");
    }
    return 0;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    CHECK(vicus_init() == VICUS_OK);
    vicus_options *options;
    CHECK(vicus_options_new(&options) == VICUS_OK);
    CHECK(vicus_options_set(options, "strategy", argv[1]) == VICUS_OK);
    CHECK(vicus_options_set(options, "threads", argv[2]) == VICUS_OK);
    CHECK(vicus_options_set(options, "quiet", "yes") == VICUS_OK);
    CHECK(vicus_runtime_start(options, &runtime) == VICUS_OK);
    vicus_options_free(options);
    char name[64];
    CHECK(vicus_runtime_print(runtime, VICUS_ABOUT_STRATEGY, name, sizeof name) == strlen(argv[1]) && strcmp(name, argv[1]) == 0);
    CHECK((int)vicus_runtime_threads(runtime) == atoi(argv[2]));

    loops();
    atomic_uint threads = 0;
    CHECK(vicus_on_each_thread(runtime, on_thread, &threads) == VICUS_OK);
    CHECK(threads == (1u << vicus_runtime_threads(runtime)) - 1);
    scopes();
    count = 0;
    dropped = 0;
    CHECK(vicus_run(runtime, children, (void *)(uintptr_t)1) == VICUS_OK);
    CHECK(count == 41);
    requests();
    thrd_t others[3];
    for (int n = 0; n < 3; ++n) CHECK(thrd_create(&others[n], foreign, NULL) == thrd_success);
    for (int n = 0; n < 3; ++n) CHECK(thrd_join(others[n], NULL) == thrd_success);
    vicus_runtime_free(runtime);
    puts("ok");
    return 0;
}
