/**
 * @file vicus.h
 * Vicus for programs in C (C11) and everything that calls C: tasks, placed memory, networks of boxes and queries, on threads that stay
 * near their data. For C++ there is vicus.hpp, which is headers alone over this file.
 *
 * @code{.c}
 * #include <vicus.h>
 * #include <stdio.h>
 *
 * static int32_t square(void *squares, size_t begin, size_t end) {
 *     for (size_t n = begin; n < end; ++n) ((size_t *)squares)[n] = n * n;
 *     return VICUS_OK;
 * }
 *
 * int main(void) {
 *     size_t squares[1000];
 *     if (vicus_init() || vicus_for_each(NULL, 0, 1000, square, squares)) return fprintf(stderr, "%s\n", vicus_error_message());
 *     printf("%zu\n", squares[31]);
 * }
 * @endcode
 *
 * **Errors.** A function returns ::VICUS_OK or a negative status; after that, vicus_error_message() says what went wrong in the calling
 * thread's last call that failed. `errno` is not used. Nothing that a caller does wrong ends the process, as long as pointers are good.
 *
 * **Handles** are pointers to incomplete types. What `_new`, `_start` and the like gave is freed by the function that ends in `_free`, for
 * which `NULL` is right and does nothing. A handle that is freed is no longer used. Unless its function says otherwise, a handle may be used by
 * several threads at once.
 *
 * **Threads.** Any thread may call any function, in a task or outside of tasks, unless its documentation says "in a task": then it is about
 * the running task, and outside of tasks it fails with ::VICUS_ERROR_STATE. `runtime` may be `NULL` where a function takes one: then the task's
 * own runtime is meant, and outside of tasks a runtime with the default settings that starts at its first use and never ends.
 *
 * **Callbacks.** A callback gets the `data` that was given with it, on any thread of the runtime, perhaps while other callbacks with the same
 * data run. It returns ::VICUS_OK; any other number is a failure, which reaches the call that waits for it: that returns the same number and the
 * message that the callback has set with vicus_fail(). Positive numbers are for programs' own use. A callback must neither throw
 * C++ exceptions nor `longjmp` out. Where there is a `drop`, it may be `NULL`; else it is called exactly once with `data`, when neither
 * is needed any more: after the callback, when a cancelled task is dropped, and also when the call fails that was given it.
 *
 * **Texts** are UTF-8 and end with a zero byte. Functions that print into a buffer write at most `capacity` bytes, the zero byte included, and return
 * how long the whole text is without it, as `snprintf` does; `NULL` and 0 ask for the length alone.
 *
 * **Versions.** A program calls vicus_init() before all else. A library of another minor version (before 1.0; then: of another major version)
 * refuses, and so does everything that starts something.
 */
#ifndef VICUS_H
#define VICUS_H

#include <stddef.h>
#include <stdint.h>

/** @name The version of this header @{ */
#define VICUS_VERSION_MAJOR 0
#define VICUS_VERSION_MINOR 2
#define VICUS_VERSION_PATCH 0
/** major * 10000 + minor * 100 + patch. */
#define VICUS_VERSION (VICUS_VERSION_MAJOR * 10000 + VICUS_VERSION_MINOR * 100 + VICUS_VERSION_PATCH)
/** Raised whenever a function or a structure changes what it was. */
#define VICUS_ABI_VERSION 2
/** @} */

#ifdef __cplusplus
extern "C" {
#endif

/** @name Statuses @{ */
/** All went well. */
#define VICUS_OK 0
/** A null handle, a number out of range, a structure of the wrong size. */
#define VICUS_ERROR_ARGUMENT (-1)
/** The program was compiled with a header of another version, or has not called vicus_init(). */
#define VICUS_ERROR_VERSION (-2)
/** The call is not for this moment or this thread: outside of a task, for one. */
#define VICUS_ERROR_STATE (-3)
/** There is no such setting, strategy, machine or distribution. */
#define VICUS_ERROR_SETTING (-4)
/** The operating system refused: a thread, a file. */
#define VICUS_ERROR_SYSTEM (-5)
/** There is not so much memory. */
#define VICUS_ERROR_NO_MEMORY (-6)
/** It was cancelled. */
#define VICUS_ERROR_CANCELLED (-7)
/** A callback has failed; in C++, it has thrown. */
#define VICUS_ERROR_CALLBACK (-8)
/** Columns are of another type or number than was said. */
#define VICUS_ERROR_SCHEMA (-9)
/** A network is not right, or its boxes wait for each other and there is no memory for its vias to hold more. */
#define VICUS_ERROR_NETWORK (-10)
/** The text of a query or an update is wrong; vicus_error_place() may know where. */
#define VICUS_ERROR_QUERY (-11)
/** A query needs more time, memory or rows than it may. */
#define VICUS_ERROR_LIMIT (-12)
/** All queries together hold too much; asking later may help. */
#define VICUS_ERROR_BUSY (-13)
/** Files or a store can't be read or written. */
#define VICUS_ERROR_DATA (-14)
/** A queue is closed. */
#define VICUS_ERROR_CLOSED (-15)
/** A mistake of the library, which its message describes. */
#define VICUS_ERROR_INTERNAL (-16)
/** @} */

/* ---- Arrow's C data interface ----
 * As the Arrow columnar format defines it, and as it can be defined by several headers of one program. */

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

#endif

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};

#endif

/* ---- versions and errors ---- */

/** As vicus_init(), with the versions of some other header. */
int32_t vicus_init_with(uint32_t version, uint32_t abi);

/** Compares the header that the program is compiled with and the library. The first call of every program; further ones do no harm.
 *  @return ::VICUS_ERROR_VERSION if they don't fit; the message names both versions. */
static inline int32_t vicus_init(void) {
    return vicus_init_with(VICUS_VERSION, VICUS_ABI_VERSION);
}

/** The library's version as a text, such as `0.2.0`. */
const char *vicus_version(void);
/** The library's version as ::VICUS_VERSION counts. */
uint32_t vicus_version_number(void);
/** The library's ::VICUS_ABI_VERSION. */
uint32_t vicus_abi_version(void);

/** Frees the data of a callback. */
typedef void (*vicus_drop_fn)(void *data);

/** The status of the calling thread's last call that failed. */
int32_t vicus_error_status(void);
/** What went wrong in the calling thread's last call that failed. The text is good until the thread's next call that fails. */
const char *vicus_error_message(void);
/** Where in a query's text it went wrong.
 *  @param[out] line, column  from 1, in characters; 0 if there is no place. May be `NULL`.
 *  @return whether there is a place. */
int32_t vicus_error_place(uint32_t *line, uint32_t *column);
/** What the callback that failed has given to vicus_fail(), if it was given with this `drop`; else `NULL`. It belongs to the error, and is good
 *  until the thread's next call that fails. */
void *vicus_error_payload(vicus_drop_fn drop);

/** For callbacks: `return vicus_fail(7, "no such file", NULL, NULL);` makes the call that waits fail with this status and this message.
 *  @param status   0 stands for ::VICUS_ERROR_CALLBACK
 *  @param message  may be `NULL`
 *  @param payload  whatever else the waiting thread is to get; `drop` frees it, on any thread
 *  @return the status */
int32_t vicus_fail(int32_t status, const char *message, void *payload, vicus_drop_fn drop);

/* ---- the machine ---- */

/** A machine: its PUs (hardware threads), cores, caches, core groups (PUs that share a cache) and NUMA nodes. */
typedef struct vicus_topology vicus_topology;

/** @name What vicus_topology_count() counts @{ */
#define VICUS_PU 0
#define VICUS_CORE 1
#define VICUS_GROUP 2
#define VICUS_NODE 3
#define VICUS_CACHE 4
/** PUs that this process may use. */
#define VICUS_USABLE_PU 5
/** @} */

/** @name Kinds of places @{ */
#define VICUS_PLACE_ANYWHERE 0
#define VICUS_PLACE_NODE 1
#define VICUS_PLACE_GROUP 2
/** @} */

/** A place on a machine: a node or a core group, by its number; or anywhere. */
typedef struct vicus_place {
    uint32_t kind;
    uint32_t index;
} vicus_place;

/** Finds the machine that this runs on. What can't be found out is left out. */
int32_t vicus_topology_discover(vicus_topology **topology);
/** A machine by its description: words such as `node:2 core:4 pu:2`, hwloc's synthetic descriptions, or a file of hwloc's XML. */
int32_t vicus_topology_describe(const char *description, vicus_topology **topology);
void vicus_topology_free(vicus_topology *topology);
/** How many of these the machine has. */
uint32_t vicus_topology_count(const vicus_topology *topology, uint32_t what);
/** Which core, core group and node a PU is of. Those that are not asked for may be `NULL`. */
int32_t vicus_topology_pu(const vicus_topology *topology, uint32_t pu, uint32_t *core, uint32_t *group, uint32_t *node);
/** How far two places are from one another, as the machine tells; 10 is the distance of a node to itself. */
int32_t vicus_topology_distance(const vicus_topology *topology, vicus_place from, vicus_place to, uint32_t *distance);
/** The machine as a text of some lines. */
size_t vicus_topology_print(const vicus_topology *topology, char *buffer, size_t capacity);

/* ---- runtimes ---- */

/** Settings. One thread at a time changes them. */
typedef struct vicus_options vicus_options;
/** Threads that work as a strategy says. */
typedef struct vicus_runtime vicus_runtime;
/** Something that runs while its caller goes on. */
typedef struct vicus_request vicus_request;

/** A task. */
typedef int32_t (*vicus_task_fn)(void *data);
/** One of the threads of vicus_on_each_thread(). */
typedef int32_t (*vicus_thread_fn)(void *data, uint32_t thread, uint32_t threads);

/** The default settings: what the environment says (`VICUS_STRATEGY`, `VICUS_DATA_DISTRIBUTION` and others), else the library's. */
int32_t vicus_options_new(vicus_options **options);
/** Changes a setting.
 *
 *  | name | value |
 *  |---|---|
 *  | `threads` | how many; by default one for each PU that the process may use |
 *  | `strategy` | `vicus` (the default), `las`, `nls`, `bobox`, `steal`, `footprint`, `vicinity`, `locality-queues`, `central`, `shepherd`; with parameters, as `footprint:share_bytes=65536` |
 *  | `topology` | the machine to plan for, as vicus_topology_describe() takes it |
 *  | `distribution` | how memory lies that is asked for without one: see vicus_alloc() |
 *  | `events` | how many events each thread records for vicus_runtime_trace() |
 *  | `events_roll` | `yes`: the last events are kept in place of the first ones, and sums of those before |
 *  | `events_last_ms` | the milliseconds before the end whose events are kept, and sums of the time before |
 *  | `count_takes` | `yes`: counts where tasks were found, for ::VICUS_ABOUT_TAKES |
 *  | `quiet` | `yes`: what could not be done is not printed on standard error |
 *  | `caller_works_ms` | how long the caller of a short query works for it itself |
 *  | `head_start_ms` | how long new requests go before others |
 *  | `decay_ms` | after how long freed memory goes back to the system |
 *  | `allocator` | `vicus`, or `system` to leave all columns to the system's allocator |
 *  | `latency_file` | where `vicinity` keeps what it measures |
 *  | `query_memory_bytes` | how much all queries may hold together |
 *
 *  @return ::VICUS_ERROR_SETTING if there is no such name or the value is wrong; the message says what is expected. */
int32_t vicus_options_set(vicus_options *options, const char *name, const char *value);
void vicus_options_free(vicus_options *options);

/** Starts a runtime. @param options may be `NULL`; they can be used again. */
int32_t vicus_runtime_start(const vicus_options *options, vicus_runtime **runtime);
/** Ends a runtime: cancels what still runs, and waits for its threads; in one of its own tasks, without waiting. Datasets that were loaded with it keep
 *  it until they are freed. */
void vicus_runtime_free(vicus_runtime *runtime);
/** Ends and frees a runtime, also if this fails, and writes what it recorded to a file, which `vicus trace` reads. */
int32_t vicus_runtime_trace(vicus_runtime *runtime, const char *path);
/** How many threads it has. */
uint32_t vicus_runtime_threads(const vicus_runtime *runtime);
/** The machine that it runs on. It belongs to the runtime, and is not freed. */
const vicus_topology *vicus_runtime_topology(const vicus_runtime *runtime);

/** @name What vicus_runtime_print() tells @{ */
/** The strategy's name, with parameters. */
#define VICUS_ABOUT_STRATEGY 0
/** What the strategy has decided for this machine. */
#define VICUS_ABOUT_PLAN 1
/** What could not be done on this machine, a line each. */
#define VICUS_ABOUT_WARNINGS 2
/** How many tasks were found by which rule and how far away, a line each; with the setting `count_takes`. */
#define VICUS_ABOUT_TAKES 3
/** @} */
size_t vicus_runtime_print(const vicus_runtime *runtime, uint32_t what, char *buffer, size_t capacity);

/** Runs a function as a task, and waits for it. In a task of the same runtime it is simply called. */
int32_t vicus_run(vicus_runtime *runtime, vicus_task_fn function, void *data);
/** Runs a function once on each thread, with its number, and waits for all. */
int32_t vicus_on_each_thread(vicus_runtime *runtime, vicus_thread_fn function, void *data);

/** Runs a function as a request of its own, while the caller goes on. In a task or a box it is a part of the request of that one: it is cancelled
 *  with it, and what it reserves is booked there as well.
 *  @param[out] request  may be `NULL`: then it runs on by itself */
int32_t vicus_runtime_spawn(vicus_runtime *runtime, vicus_task_fn function, void *data, vicus_drop_fn drop, vicus_request **request);
/** The same with a bound on what its tasks may hold together (vicus_reserve()); 0 is none. */
int32_t vicus_runtime_spawn_within(vicus_runtime *runtime, uint64_t memory_bytes, vicus_task_fn function, void *data, vicus_drop_fn drop, vicus_request **request);
/** Bytes that are booked with a request. */
typedef struct vicus_reservation vicus_reservation;
/** Books bytes with the running task's request, before they are allocated. Outside of tasks, and in requests without a bound, anything may be booked.
 *  @return ::VICUS_ERROR_LIMIT if the request would hold more than it may */
int32_t vicus_reserve(uint64_t bytes, vicus_reservation **reservation);
/** Gives them back; on any thread. */
void vicus_reservation_free(vicus_reservation *reservation);
/** Waits until a request is over; a task meanwhile runs others. May be called several times, by several threads.
 *  @return the status of its function or its network; ::VICUS_ERROR_CANCELLED if it was cancelled before its function began */
int32_t vicus_request_wait(const vicus_request *request);
/** Whether it is over. */
int32_t vicus_request_is_done(const vicus_request *request);
/** Drops its tasks that have not begun. Those that run may ask vicus_is_cancelled(). */
void vicus_request_cancel(const vicus_request *request);
/** Lets it run on by itself, if it does. */
void vicus_request_free(vicus_request *request);

/* ---- tasks ---- */

/** @name What a task does with bytes @{ */
#define VICUS_READ 1
#define VICUS_WRITE 2
#define VICUS_READ_WRITE 3
/** It reads and writes them at the same time as the tasks before and behind it that say the same, and sees to it itself that they don't disturb each
 *  other. All others are ordered, as by a write. */
#define VICUS_CONCURRENT 4
/** It reads and writes them, in any order among the tasks before and behind it that say the same of the same bytes, but never two at once. All others
 *  are ordered, as by a write. */
#define VICUS_COMMUTATIVE 5
/** @} */
/** @name Flags of an access @{ */
/** This datum alone decides where the task runs. */
#define VICUS_ACCESS_INTENSE 1
/** It is written past the caches. */
#define VICUS_ACCESS_STREAMS 2
/** @} */

/** Bytes that a task reads or writes: `rows` stretches of `bytes` each, `stride` bytes from one's start to the next one's. Addresses are
 *  compared and never followed. */
typedef struct vicus_access {
    const void *address;
    size_t bytes;
    /** 0 and 1 are one stretch. */
    size_t rows;
    size_t stride;
    /** ::VICUS_READ, ::VICUS_WRITE, ::VICUS_READ_WRITE, ::VICUS_CONCURRENT or ::VICUS_COMMUTATIVE. */
    uint32_t mode;
    /** ::VICUS_ACCESS_INTENSE, ::VICUS_ACCESS_STREAMS. */
    uint32_t flags;
} vicus_access;

/** @name Flags of a task @{ */
/** It shares most of its data with the task that spawns it: run soon and near. The default of a task of which nothing else is said, and
 *  of children that name no place. */
#define VICUS_TASK_IMMEDIATE 1
/** It begins something of its own: run where there is room. */
#define VICUS_TASK_DEFERRED 2
/** `priority` counts: of the scope's or the parent's tasks that can run, the one with the largest is taken first. */
#define VICUS_TASK_PRIORITY 4
/** @} */

/** What may be said of a task. Begin with ::VICUS_TASK_OPTIONS_INIT. */
typedef struct vicus_task_options {
    /** `sizeof(vicus_task_options)` of the program's header. */
    uint32_t size;
    uint32_t flags;
    /** It runs after the earlier tasks of the same scope or parent that write what it reads, or that read or write what it writes; and near
     *  most of these bytes, if the strategy uses places. */
    const vicus_access *follows;
    size_t follows_count;
    /** It runs near most of these bytes. They order nothing. */
    const vicus_access *touches;
    size_t touches_count;
    /** Where it runs, if the strategy has queues for places. */
    vicus_place place;
    int32_t priority;
    uint32_t reserved;
} vicus_task_options;

#define VICUS_TASK_OPTIONS_INIT {sizeof(vicus_task_options), 0, NULL, 0, NULL, 0, {VICUS_PLACE_ANYWHERE, 0}, 0, 0}

/** A scope: all tasks that are spawned in it are over before it ends. The pointer is good until then. */
typedef struct vicus_scope vicus_scope;
/** The body of a scope. */
typedef int32_t (*vicus_scope_fn)(vicus_scope *scope, void *data);

/** Runs two functions and waits for both. Another thread may run the second while the first one runs.
 *  @return the first one's status if both fail */
int32_t vicus_join(vicus_runtime *runtime, vicus_task_fn a, void *a_data, vicus_task_fn b, void *b_data);

/** Runs a function that may spawn tasks, and returns when all of them are over. So they may use what lies on the caller's stack.
 *  @return the status of the first task that failed, or else of the function */
int32_t vicus_scope_run(vicus_runtime *runtime, vicus_scope_fn function, void *data);
/** Spawns an immediate task. In the scope's function or in its tasks.
 *  @return ::VICUS_ERROR_STATE on any other thread */
int32_t vicus_scope_spawn(const vicus_scope *scope, vicus_task_fn function, void *data, vicus_drop_fn drop);
/** Spawns a task of which more is said. @param options may be `NULL` */
int32_t vicus_scope_spawn_with(const vicus_scope *scope, vicus_task_fn function, void *data, vicus_drop_fn drop, const vicus_task_options *options);
/** Drops the scope's tasks that have not begun. */
void vicus_scope_cancel(const vicus_scope *scope);

/** In a task: spawns a child of it, which may outlive it. vicus_wait(), the groups and scopes around it and the root of all these tasks wait for it,
 *  and get its failure. Children of one task are ordered by what they follow. @param options may be `NULL` */
int32_t vicus_spawn(vicus_task_fn function, void *data, vicus_drop_fn drop, const vicus_task_options *options);
/** In a task: waits for its children, not for theirs. @return the status of the first that failed */
int32_t vicus_wait(void);
/** In a task: opens a group of all children that it spawns from now on, with all their descendants. Groups may be nested. */
int32_t vicus_group_open(void);
/** In the task that opened the group: waits for all tasks in it. @return the status of the first that failed */
int32_t vicus_group_close(void);
/** In a task: drops what has not begun in the innermost group that it has opened, or else in the one that it belongs to. */
int32_t vicus_group_cancel(void);
/** Whether the request, scope or group of the running task was cancelled: long tasks ask now and then, and return. 0 outside of tasks. */
int32_t vicus_is_cancelled(void);
/** Whether the calling thread runs a task or a box. */
int32_t vicus_is_in_task(void);

/** Some iterations of a loop: `begin <= n < end`. */
typedef int32_t (*vicus_piece_fn)(void *data, size_t begin, size_t end);
/** Runs a loop on all threads, piece by piece. A range is cut in the same way each time, so that the same number comes to the same thread in the next
 *  loop over it, where its data is near. A thread that has done its part helps the nearest. After a failure, pieces that have not begun are left out. */
int32_t vicus_for_each(vicus_runtime *runtime, size_t begin, size_t end, vicus_piece_fn function, void *data);

/** Adds what some iterations come to to a value, which begins as the one that vicus_reduce() was given. */
typedef int32_t (*vicus_map_fn)(void *data, size_t begin, size_t end, void *value);
/** Adds the value of later iterations to one of earlier ones. */
typedef int32_t (*vicus_combine_fn)(void *data, void *value, const void *next);
/** Reduces a loop to one value, on all threads. `combine` is called by this thread, in the order of the range, which the same number of threads
 *  always cuts in the same way: so a sum of floating-point numbers is the same each time.
 *  @param[in,out] value  what neither `map` nor `combine` is changed by, such as 0 for a sum; then the result. `bytes` long, to be copied as bytes,
 *                        and aligned to 16 bytes where the functions get it */
int32_t vicus_reduce(vicus_runtime *runtime, size_t begin, size_t end, vicus_map_fn map, vicus_combine_fn combine, void *data, void *value, size_t bytes);

/* ---- memory ---- */

/** Memory in whole pages, zeroed, that lies over the nodes as chosen.
 *
 *  | distribution | how memory lies | made for |
 *  |---|---|---|
 *  | `standard` | as the machine does it: usually where it is touched first | programs that place their data themselves |
 *  | `fine` | page by page in turn over the nodes | large data that all threads share |
 *  | `coarse` | each allocation on the next node, as a whole | many pieces, each used by few tasks |
 *  | `on:N` | on node N | data of one neighbourhood |
 *  | `blocked` | equal contiguous parts, one for each node | arrays that are worked on part by part |
 *  | `weighted:A,B,...` | contiguous parts of these proportions | nodes of unequal speed |
 *  | `tiles:ROW_BYTES,TILE_ROWS,TILE_BYTES` | the tiles of a matrix, round a grid of the locations | matrices that are worked on tile by tile |
 *  | `replicated` | a copy on each node | what is only read |
 *
 *  @param runtime       whose machine it is; `NULL` is the one with the default settings
 *  @param alignment     a power of two; 0 is 1. It is a page at least
 *  @param distribution  `NULL` is the runtime's own
 *  @return ::VICUS_ERROR_SETTING if there is no such distribution on this machine, ::VICUS_ERROR_NO_MEMORY */
int32_t vicus_alloc(vicus_runtime *runtime, size_t bytes, size_t alignment, const char *distribution, void **memory);
#ifndef VICUS_POLICY_FN
#define VICUS_POLICY_FN
/** Says where each unit of an allocation is to lie. `units` are pages; there are `locations` nodes with memory,
 *  which are counted from 0. All units are 0 at first. Another number than 0 as the result is a failure. */
typedef int32_t (*vicus_policy_fn)(void *data, size_t units, size_t locations, uint32_t *location_of_unit);
#endif
/** As vicus_alloc(), by a policy of the program's own, which is called once, before this returns. Memory whose
 *  units are all at one location counts as in one place, as by `coarse`.
 *  @return also what the policy returned; ::VICUS_ERROR_SETTING if it has chosen a location that is not there */
int32_t vicus_alloc_by(vicus_runtime *runtime, size_t bytes, size_t alignment, vicus_policy_fn policy, void *data,
                       void **memory);
/** Frees what vicus_alloc() or vicus_alloc_by() gave. `NULL` is right. @return ::VICUS_ERROR_ARGUMENT for any other
 *  address; then nothing is freed */
int32_t vicus_free(void *memory);
/** Where memory of vicus_alloc() lies, from an offset on.
 *  @param[out] node  -1 if it is unknown, as `standard` memory is, or has copies
 *  @param[out] end   where the stretch that lies on this node ends, in bytes from the memory's beginning */
int32_t vicus_memory_stretch(const void *memory, size_t offset, int32_t *node, size_t *end);
/** The copy of `replicated` memory that is nearest to a place; other memory has one for all. */
int32_t vicus_memory_copy(const void *memory, vicus_place place, const void **copy);
/** Copies the first copy of `replicated` memory, which vicus_alloc() gave and the program has written, to all others. */
int32_t vicus_memory_spread(void *memory);
/** The node that an address of placed memory was asked to lie on; -1 if it is not placed. */
int32_t vicus_node_of(const void *address);
/** The node of the calling thread; -1 before the first runtime has started. */
int32_t vicus_here(void);
#ifndef VICUS_NEXT_TOUCH
/** Memory moves to the node of the next task that names it as its data. */
#define VICUS_NEXT_TOUCH (-1)
#endif
/** Moves memory of the program to another node: the pages of which at least a half is in the range, as far as they
 *  were touched. With ::VICUS_NEXT_TOUCH nothing moves yet: each part moves when the first task that is made from
 *  now on and that names it (`follows` or `touches`) begins, to the node where that task runs. What is freed before
 *  that is not to be marked so.
 *  @param node  from 0; or ::VICUS_NEXT_TOUCH
 *  @return ::VICUS_ERROR_ARGUMENT if there is no such node, ::VICUS_ERROR_SYSTEM if the system moves no pages,
 *      ::VICUS_ERROR_NO_MEMORY if 65,536 ranges are marked */
int32_t vicus_migrate(void *address, size_t bytes, int32_t node);
/** How many bytes of any memory lie on each node. The system is asked about what is not placed.
 *  @param[out] by_node  one number for each of `nodes` nodes
 *  @param[out] unknown  bytes that are on none of them, or untouched; may be `NULL` */
int32_t vicus_footprint(const void *address, size_t bytes, size_t *by_node, size_t nodes, size_t *unknown);
/** Runs a loop over the elements of placed memory, on all threads, each piece near its memory if a thread is there. An element lies where its
 *  first byte lies. */
int32_t vicus_for_each_near(vicus_runtime *runtime, const void *memory, size_t element_bytes, size_t count, vicus_piece_fn function, void *data);

/** A matrix in placed memory, zeroed, that is cut into tiles; each tile lies on one node, where whole tiles fill
 *  pages. With one column it is an array in blocks. Wheeler et al., "Portable Performance from Workstation to
 *  Supercomputer: Distributing Data Structures with Qthreads", sections 5.2 and 6. */
typedef struct vicus_matrix vicus_matrix;

/** @name In which order the elements of a matrix lie @{ */
/** Row behind row, without gaps: the element at row r and column c is number `r * columns + c`. Tiles beside each
 *  other lie on one node. */
#define VICUS_BY_ROWS 0
/** Tile behind tile, and row behind row within each: each tile may lie on a node of its own. Those at the right and
 *  the lower border take as much room as the others. */
#define VICUS_BY_TILES 1
/** @} */
/** @name Where the segments of a matrix lie @{ */
/** In turn over the nodes, by their numbers alone. */
#define VICUS_PATTERN_HASH 0
/** The same, from a list. */
#define VICUS_PATTERN_STRIPES 1
/** Equal shares of neighbouring segments for the nodes. */
#define VICUS_PATTERN_FIELDS 2
/** By chance, from the seed. */
#define VICUS_PATTERN_RANDOM 3
/** All at the place. */
#define VICUS_PATTERN_PLACE 4
/** @} */

/** What may be said of a matrix. Begin with ::VICUS_MATRIX_OPTIONS_INIT. */
typedef struct vicus_matrix_options {
    uint32_t size;
    /** ::VICUS_BY_ROWS or ::VICUS_BY_TILES. */
    uint32_t order;
    /** Rows of a tile. 0: as many as have 64 KiB, and one at least. */
    size_t tile_rows;
    /** Columns of a tile. 0: all. */
    size_t tile_columns;
    /** Pages of a segment, the least that lies on a node of its own: so many, or up to twice as many if these hold
     *  whole tiles. 0: 16. */
    size_t segment_pages;
    /** ::VICUS_PATTERN_HASH and others. */
    uint32_t pattern;
    uint32_t reserved;
    /** For ::VICUS_PATTERN_RANDOM. */
    uint64_t seed;
    /** For ::VICUS_PATTERN_PLACE: a node or a core group. */
    vicus_place place;
} vicus_matrix_options;

#define VICUS_MATRIX_OPTIONS_INIT {sizeof(vicus_matrix_options), VICUS_BY_ROWS, 0, 0, 0, VICUS_PATTERN_HASH, 0, 0, \
    {VICUS_PLACE_ANYWHERE, 0}}

/** Makes a matrix of so many rows and columns.
 *  @param runtime        whose machine it is; `NULL` is the one with the default settings
 *  @param element_bytes  of an element, at least 1. Elements lie without gaps from the beginning of a page on
 *  @param options        may be `NULL`
 *  @return ::VICUS_ERROR_ARGUMENT if an option is none, ::VICUS_ERROR_NO_MEMORY if there is not so much memory, or so
 *  many addresses */
int32_t vicus_matrix_new(vicus_runtime *runtime, size_t rows, size_t columns, size_t element_bytes,
    const vicus_matrix_options *options, vicus_matrix **matrix);
/** Where its elements begin. */
void *vicus_matrix_data(const vicus_matrix *matrix);
/** Where an element is.
 *  @param[out] element  its address
 *  @param[out] in_row   how many elements of its row lie one behind the other from there on: all that are left of the
 *                       row by rows, of the tile by tiles. May be `NULL`
 *  @return ::VICUS_ERROR_ARGUMENT if there is no such row or column */
int32_t vicus_matrix_at(const vicus_matrix *matrix, size_t row, size_t column, void **element, size_t *in_row);
/** How many rows and columns its tiles have. */
int32_t vicus_matrix_tile(const vicus_matrix *matrix, size_t *tile_rows, size_t *tile_columns);
void vicus_matrix_free(vicus_matrix *matrix);

/** A piece of a loop over matrices: `begin` is the first row or column, and `end` the one behind the last. */
typedef struct vicus_tile {
    /** The elements that it computes. */
    size_t row_begin;
    size_t row_end;
    size_t column_begin;
    size_t column_end;
    /** Those that it reads: its own, and those within reach that there are. */
    size_t reads_row_begin;
    size_t reads_row_end;
    size_t reads_column_begin;
    size_t reads_column_end;
    /** The node where most bytes of its own elements lie. */
    int32_t node;
    uint32_t reserved;
} vicus_tile;

/** One tile of a loop. It is good during the call. */
typedef int32_t (*vicus_tile_fn)(void *data, const vicus_tile *tile);
/** Runs a loop over the elements at the same row and column in several matrices, on all threads: once for each tile
 *  of the first matrix, near where most bytes of the tile's elements in all of them lie, if a thread is there. Of two
 *  nodes with as many it is that of the first matrix. Nothing orders the tiles: what one of them writes, no other one
 *  may read. After a failure, tiles that have not begun are left out.
 *  @param count                      of matrices, at least 1
 *  @param reach_rows, reach_columns how many rows and columns around an element are read, as a stencil does; in
 *                     elements
 *  @return ::VICUS_ERROR_ARGUMENT if they have not the same rows and columns */
int32_t vicus_for_each_tile(vicus_runtime *runtime, const vicus_matrix *const *matrices, size_t count,
    size_t reach_rows, size_t reach_columns, vicus_tile_fn function, void *data);

/** A queue of pointers for any number of producers and consumers. */
typedef struct vicus_queue vicus_queue;

/** A queue in the order of its pushes, without locks. Its functions ignore places.
 *  @param drop  frees the elements that are in the queue when it is freed; may be `NULL` */
int32_t vicus_queue_new(vicus_drop_fn drop, vicus_queue **queue);
/** A queue with a part at each node of a machine: consumers take what was pushed near to them first. */
int32_t vicus_queue_new_near(const vicus_topology *topology, vicus_drop_fn drop, vicus_queue **queue);
/** Pushes an element at a place; anywhere is the caller's node. It is the queue's if the call succeeds. @return ::VICUS_ERROR_CLOSED */
int32_t vicus_queue_push(const vicus_queue *queue, vicus_place place, void *element);
/** Takes an element, if there is one. @param[out] found whether there was. @return ::VICUS_ERROR_CLOSED if there will never be one again */
int32_t vicus_queue_try_pop(const vicus_queue *queue, vicus_place place, void **element, int32_t *found);
/** Of a queue with places: takes an element, for which the thread sleeps, also in a task. @return ::VICUS_ERROR_CLOSED */
int32_t vicus_queue_pop(const vicus_queue *queue, vicus_place place, void **element);
/** Of a queue with places: refuses pushes from now on, and wakes sleeping consumers when all elements are taken. */
int32_t vicus_queue_close(const vicus_queue *queue);
void vicus_queue_free(vicus_queue *queue);

/** Takes the pairs that a call of `map` makes. */
typedef struct vicus_emitter vicus_emitter;
/** The values of one key. */
typedef struct vicus_values vicus_values;

/** A computation by two functions: `map` makes pairs of a key and a value from each element, `reduce` makes one
 *  result of all values of a key. Keys and values are strings of bytes. Dean and Ghemawat, "MapReduce", OSDI 2004;
 *  Wheeler et al., section 6. Begin with ::VICUS_MAP_REDUCE_INIT. */
typedef struct vicus_map_reduce {
    uint32_t size;
    /** Into how many parts keys are dealt. 0: eight for each core group on which there are threads. */
    uint32_t partitions;
    /** Gets each element of the input once, and owns it from then on, also if it fails; calls vicus_emit(). */
    int32_t (*map)(void *data, void *element, vicus_emitter *emitter);
    /** Gets each key once; asks for its values by vicus_values_next(), in any order.
     *  @param[out] result  what is pushed to the output; it is `NULL` at first, which is nothing. Also if the call
     *                      fails, it is the library's, which frees it by the output's `drop` */
    int32_t (*reduce)(void *data, const void *key, size_t key_bytes, vicus_values *values, void **result);
    /** Makes one value of two of the same key, in place, so that fewer are sent and kept; `value` keeps its length.
     *  Both are aligned to one byte. May be `NULL`. */
    int32_t (*combine)(void *data, void *value, size_t value_bytes, const void *next, size_t next_bytes);
    /** What all three get. */
    void *data;
    /** How many bytes pairs may take in memory, at least 64 KiB. 0: a quarter of the memory that is free. */
    size_t memory_bytes;
    /** Where temporary files are made for what is more; they have no names there. `NULL`: nowhere. */
    const char *folder;
} vicus_map_reduce;

#define VICUS_MAP_REDUCE_INIT {sizeof(vicus_map_reduce), 0, NULL, NULL, NULL, NULL, 0, NULL}

/** Computes results from one queue into another, on all threads: elements are mapped near where they were pushed,
 *  pairs travel to the place of their key, and results are pushed where they are made. It ends when the input is
 *  closed and empty; the output stays open. Threads of the runtime wait for the input meanwhile, so tasks of this
 *  runtime that have not begun must not fill it.
 *  @param input, output of vicus_queue_new_near(), for the machine of the runtime (vicus_runtime_topology()), also if
 *                the runtime is `NULL`
 *  @return ::VICUS_ERROR_ARGUMENT if a function is missing or a queue is for another machine, ::VICUS_ERROR_STATE if
 *  one has no places, ::VICUS_ERROR_LIMIT if pairs need more memory and there is no folder, ::VICUS_ERROR_DATA if a
 *  file can't be written or read, ::VICUS_ERROR_CLOSED if the output takes no more. Elements that are left in the
 *  input stay there */
int32_t vicus_map_reduce_run(vicus_runtime *runtime, const vicus_map_reduce *job, const vicus_queue *input,
    const vicus_queue *output);
/** In `map`: emits a pair, whose bytes are copied. */
int32_t vicus_emit(vicus_emitter *emitter, const void *key, size_t key_bytes, const void *value, size_t value_bytes);
/** In `reduce`: the next value of the key.
 *  @param[out] value  its bytes, aligned to one byte, good until the next call; written only if there is one, as
 *                     `value_bytes` is
 *  @param[out] found  whether there was one */
int32_t vicus_values_next(vicus_values *values, const void **value, size_t *value_bytes, int32_t *found);

/** Items of one size, from memory near those that take them. Wheeler et al., "Portable Performance from Workstation to Supercomputer: Distributing
 *  Data Structures with Qthreads", section 5.1. */
typedef struct vicus_pool vicus_pool;
/** One thread's access to a pool: two magazines of 256 items, from which it takes and to which it gives without touching what others use. */
typedef struct vicus_pool_handle vicus_pool_handle;

/** A pool over all nodes of a machine. Its memory is taken in blocks of 1 MiB, and given back with the pool.
 *  @param runtime     whose machine it is; `NULL` is the one with the default settings
 *  @param bytes       of an item
 *  @param alignment   a power of two up to 256 KiB; 0 is 16
 *  @param frees_home  where a freed item goes: 0, to the node whose handle frees it, where it is in a cache; else, to the node on which it lies
 *  @return ::VICUS_ERROR_ARGUMENT if a block has no room for an item, or can't align it */
int32_t vicus_pool_new(vicus_runtime *runtime, size_t bytes, size_t alignment, int32_t frees_home, vicus_pool **pool);
/** A handle for one thread at a time. It keeps the pool's memory. @param place where it takes from first; anywhere is the caller's node */
int32_t vicus_pool_handle_new(const vicus_pool *pool, vicus_place place, vicus_pool_handle **made);
/** An item; what it holds is not said. @return ::VICUS_ERROR_NO_MEMORY if there is none on any node */
int32_t vicus_pool_take(vicus_pool_handle *handle, void **item);
/** Frees an item of the same pool, by whichever handle it was taken. @return ::VICUS_ERROR_ARGUMENT if it is no placed memory; then nothing is freed */
int32_t vicus_pool_give(vicus_pool_handle *handle, void *item);
/** As vicus_pool_give() without a handle, on any thread: the item goes to the node on which it lies, behind a lock. */
int32_t vicus_pool_give_back(const vicus_pool *pool, void *item);
/** The node from which a handle takes first. */
int32_t vicus_pool_node(const vicus_pool_handle *handle);
/** Gives all that the handle has to its node. */
void vicus_pool_handle_free(vicus_pool_handle *handle);
/** Frees a pool, and its memory when its last handle is freed. */
void vicus_pool_free(vicus_pool *pool);

/* ---- queries ---- */

/** RDF in memory, or in a folder that lasts, and the runtime that answers questions to it. */
typedef struct vicus_data vicus_data;

/** Loads files into memory. Their endings say which syntax they have (`.nt`, `.nq`, `.ttl`, `.trig`, `.rdf`, `.xml`, `.owl`, `.jsonld`), also with `.gz` or
 *  `.zst` behind it.
 *  @param count   may be 0: then there is no data yet, which vicus_update() adds
 *  @param syntax  such an ending without the point, for files whose names don't say it; may be `NULL`
 *  @return ::VICUS_ERROR_DATA if one can't be read; the message names the file, the line and what was expected */
int32_t vicus_data_load(vicus_runtime *runtime, const char *const *paths, size_t count, const char *syntax, vicus_data **data);
/** The same of a text in memory, of so many bytes. */
int32_t vicus_data_parse(vicus_runtime *runtime, const char *text, size_t bytes, const char *syntax, vicus_data **data);

/** @name How vicus_data_open() opens @{ */
/** A store that is there. */
#define VICUS_OPEN_EXISTING 0
/** A store that is there, or else a new one. */
#define VICUS_OPEN_CREATE 1
/** @} */
/** Opens a store in a folder, for one process that may change it. What vicus_update() has changed is durable when it returns. */
int32_t vicus_data_open(vicus_runtime *runtime, const char *folder, uint32_t how, vicus_data **data);
/** Adds files to what there is, all of them or none. Into a store, they are written at once, and not through its log.
 *  @param syntax  as vicus_data_load() takes it
 *  @param graph   the IRI of the graph that triples go to; `NULL` is the default graph */
int32_t vicus_data_add(const vicus_data *data, const char *const *paths, size_t count, const char *syntax, const char *graph);
/** How many quads there are. */
int32_t vicus_data_count(const vicus_data *data, uint64_t *quads);
/** Gives the data a table that lies in a file, in Parquet, CSV or Arrow's format (`.parquet`, `.csv`, `.arrow` and others), for queries in SQL. It takes the place of one
 *  that had this name. The file is read when it is asked, and is to stay as it is.
 *  @param name  as queries call it
 *  @return ::VICUS_ERROR_DATA if the file can't be read; the message names it and what was expected */
int32_t vicus_data_add_table(const vicus_data *data, const char *name, const char *path);
/** Answers that run keep what they read. */
void vicus_data_free(vicus_data *data);

/** @name Languages of queries @{ */
#define VICUS_LANGUAGE_SPARQL 0
/** Over the tables of vicus_data_add_table(), the data's predicates as tables, and `SPARQL('...')`. */
#define VICUS_LANGUAGE_SQL 1
/** Networks of boxes of the library; an answer has the rows of the text's `collect`. */
#define VICUS_LANGUAGE_NETWORK 2
/** @} */
/** @name Flags of queries @{ */
/** Where the text asks for no order, several threads may hand out rows. */
#define VICUS_QUERY_ANY_ORDER 1
/** @} */

/** What cancels queries, from any thread and at any time: those that run, and those that begin later. */
typedef struct vicus_cancel vicus_cancel;
int32_t vicus_cancel_new(vicus_cancel **cancel);
/** Cancels: the queries that were given it end with ::VICUS_ERROR_CANCELLED. Once more is right. */
void vicus_cancel_all(const vicus_cancel *cancel);
/** Queries that were given it may still run. */
void vicus_cancel_free(vicus_cancel *cancel);

/** What may be said of a query. Begin with ::VICUS_QUERY_OPTIONS_INIT. */
typedef struct vicus_query_options {
    uint32_t size;
    /** ::VICUS_LANGUAGE_SPARQL, ::VICUS_LANGUAGE_SQL or ::VICUS_LANGUAGE_NETWORK. */
    uint32_t language;
    /** 0 is no limit, here and below. */
    uint64_t timeout_ms;
    uint64_t memory_bytes;
    /** With more rows the query fails. */
    uint64_t most_rows;
    /** Further rows are left out. */
    uint64_t first_rows;
    /** What relative IRIs are resolved against; may be `NULL`. */
    const char *base;
    /** What can cancel it; may be `NULL`. It is not used after the call that gets these options. */
    const vicus_cancel *cancel;
    uint32_t flags;
    /** How many boxes of its network may live at once, if it grows while it runs, as those of recursive statements do. */
    uint32_t most_boxes;
} vicus_query_options;

#define VICUS_QUERY_OPTIONS_INIT {sizeof(vicus_query_options), VICUS_LANGUAGE_SPARQL, 0, 0, 0, 0, NULL, NULL, 0, 0}

/** Answers a query as a stream of Arrow. The caller releases the stream, at any time, which ends the query; it is read by one thread at a time. A slow reader
 *  slows the query, whose unread rows are bounded. In a task, the whole answer is collected before this returns.
 *
 *  Columns of SPARQL are dictionaries (`int32` indices, `utf8` values) of terms in N-Triples syntax, such as `<http://e/a>` and `"a"@en`; null where a
 *  variable is unbound. Those of SQL are of the types of values. CONSTRUCT and DESCRIBE have the columns `subject`, `predicate` and `object`, ASK one
 *  row of one `bool`.
 *
 *  An error while it runs is one of the stream, and is the last one of the thread that reads it as well.
 *  @param options      may be `NULL`
 *  @param[out] stream  written as a whole; what was there is not released
 *  @return ::VICUS_ERROR_QUERY if the text is wrong: vicus_error_place() says where */
int32_t vicus_query(const vicus_data *data, const char *text, const vicus_query_options *options, struct ArrowArrayStream *stream);
/** A query that is parsed and planned for the data as it is when it is prepared. It can be asked any number of times, also at once. */
typedef struct vicus_prepared vicus_prepared;
/** Prepares a query. Each answer has the options' limits. @param options may be `NULL` */
int32_t vicus_prepare(const vicus_data *data, const char *text, const vicus_query_options *options, vicus_prepared **prepared);
/** As vicus_query(). */
int32_t vicus_prepared_query(const vicus_prepared *prepared, struct ArrowArrayStream *stream);
void vicus_prepared_free(vicus_prepared *prepared);
/** How many rows the answer has; 1 for an ASK that is true. */
int32_t vicus_query_count(const vicus_data *data, const char *text, const vicus_query_options *options, uint64_t *rows);
/** Takes a part of a text. */
typedef int32_t (*vicus_write_fn)(void *data, const char *bytes, size_t count);
/** Writes an answer in a format: `table`, `json`, `xml`, `csv`, `tsv`, those of triples, and others that the message of a wrong one lists. The function is called
 *  by one thread at a time. */
int32_t vicus_query_write(const vicus_data *data, const char *text, const vicus_query_options *options, const char *format, vicus_write_fn function, void *function_data);
/** The plan of a query, for a person to read. @param[out] length how long it is, as vicus_topology_print() returns */
int32_t vicus_query_explain(const vicus_data *data, const char *text, const vicus_query_options *options, char *buffer, size_t capacity, size_t *length);
/** Carries out an update of SPARQL, all of it or nothing. Answers that run see the data as it was. @param options may be `NULL` */
int32_t vicus_update(const vicus_data *data, const char *text, const vicus_query_options *options);

/* ---- networks of boxes ---- */

/** A network that is put together, by one thread at a time. */
typedef struct vicus_network vicus_network;
/** A network that is complete; it can be run any number of times, also at once. */
typedef struct vicus_model vicus_model;
/** One invocation of a box: in its `act`, on its thread. */
typedef struct vicus_turn vicus_turn;

/** What a type of boxes does. A box is never run by two threads at once. Begin with ::VICUS_OPERATOR_INIT. */
typedef struct vicus_operator {
    uint32_t size;
    uint32_t reserved;
    /** Makes the state of a box, for each run of the model. `NULL`: the state is `data`. */
    int32_t (*create)(void *data, void **state);
    /** One invocation: takes rows, sends rows, and returns. It is invoked again when rows or room for them have come. */
    int32_t (*act)(void *state, vicus_turn *turn);
    /** Frees the state of a box; may be `NULL`. */
    void (*destroy)(void *state);
    /** What all boxes share, of all runs. */
    void *data;
    /** Frees that, when the model and all its runs are gone; may be `NULL`. */
    void (*drop)(void *data);
} vicus_operator;

#define VICUS_OPERATOR_INIT {sizeof(vicus_operator), 0, NULL, NULL, NULL, NULL, NULL}

int32_t vicus_network_new(const char *name, vicus_network **network);
/** Adds a box. Without inputs, it starts by itself, and is invoked again while it asks for it (vicus_turn_run_again()) or has just got room.
 *  @param operator_         its data is the library's from now on, also if the call fails
 *  @param inputs, outputs   schemas of tables (format `+s`), a column for each child; they stay the caller's. An output without columns sends nothing but
 *                           its end, which tells the network that the box is done. Types of columns are numbers (`c` to `L`, `f`, `g`), truth values (`b`),
 *                           texts (`u`) and strings of bytes (`z`)
 *  @param[out] box          its number in this network
 *  @return ::VICUS_ERROR_SCHEMA if a column is of another type */
int32_t vicus_network_add(vicus_network *network, const char *name, const vicus_operator *operator_, const struct ArrowSchema *const *inputs, size_t input_count, const struct ArrowSchema *const *outputs, size_t output_count, uint32_t *box);
/** Connects an output with an input. An output may have several receivers, an input has one sender. */
int32_t vicus_network_connect(vicus_network *network, uint32_t from, uint32_t output, uint32_t to, uint32_t input);
/** The same with a bound of its own for the input: so many tables (1 to 65,536; else 8) and bytes (else 4 MiB), but always one table. */
int32_t vicus_network_connect_bounded(vicus_network *network, uint32_t from, uint32_t output, uint32_t to, uint32_t input, uint32_t tables, uint64_t bytes);
/** The same for a receiver that changes columns in place, by their numbers from 0 on: it gets their values for itself, copied where another reader
 *  may see them, and may write to their `buffers[1]` until it releases or sends them. Texts and truth values stay as they are.
 *  vicus_network_build() refuses a column that there isn't. */
int32_t vicus_network_connect_private(vicus_network *network, uint32_t from, uint32_t output, uint32_t to, uint32_t input, const uint32_t *columns, size_t columns_len);
/** Says that a box takes all of an input before it takes from others or sends anything. What goes the same rows' other way then holds more as soon
 *  as it is full, in memory and beyond it in files, and not when nothing else can be done. vicus_network_build() refuses an input that there isn't. */
int32_t vicus_network_takes_all(vicus_network *network, uint32_t box, uint32_t input);
/** Says that a run is over when this output, and all others of which this was said, has ended. */
int32_t vicus_network_end(vicus_network *network, uint32_t from, uint32_t output);
/** Checks the network and makes a model of it; the network is empty after that, and is to be freed.
 *  @return ::VICUS_ERROR_NETWORK: an input or output is open, schemas don't fit, rows would go round; the message says where */
int32_t vicus_network_build(vicus_network *network, vicus_model **model);
void vicus_network_free(vicus_network *network);
/** Runs keep what they need of it. */
void vicus_model_free(vicus_model *model);
/** Runs a model; in a task or a box as a part of its request (vicus_runtime_spawn()). What a bounded memory has no room for, of
 *  boxes that wait for each other, goes to the system's folder of temporary files (TMPDIR, else /tmp). @param memory_bytes what its boxes may hold together (vicus_turn_book()); 0 is no limit. @param[out] request may be `NULL` */
int32_t vicus_runtime_submit(vicus_runtime *runtime, const vicus_model *model, uint64_t memory_bytes, vicus_request **request);

/** What may be said of a run. Begin with ::VICUS_REQUEST_OPTIONS_INIT. */
typedef struct vicus_request_options {
    /** `sizeof(vicus_request_options)` of the program's header. */
    uint32_t size;
    /** How many boxes may live at once, with those of runs that its boxes begin; 0 for 262,144. */
    uint32_t most_boxes;
    /** What its boxes may hold together (vicus_turn_book()); 0 is no limit. */
    uint64_t memory_bytes;
    /** The folder of temporary files; `NULL` for the system's (TMPDIR, else /tmp), or for none if that can't be used. */
    const char *temp_folder;
} vicus_request_options;

#define VICUS_REQUEST_OPTIONS_INIT {sizeof(vicus_request_options), 0, 0, NULL}

/** Runs a model, of which more is said. @param options may be `NULL` @param[out] request may be `NULL`
 *  @return ::VICUS_ERROR_SYSTEM if the named folder can't be used */
int32_t vicus_runtime_submit_with(vicus_runtime *runtime, const vicus_model *model, const vicus_request_options *options, vicus_request **request);

/** @name What vicus_turn_take() has found @{ */
#define VICUS_TAKEN_NOTHING 0
/** Perhaps a table without rows: the watermarks of streams without end come so, and a box in C does not pass them on. Windows
 *  behind it are sent when the stream ends. */
#define VICUS_TAKEN_ROWS 1
/** The input has ended: nothing will come from it again. */
#define VICUS_TAKEN_END 2
/** @} */
/** Takes what came to an input, at most once in an invocation.
 *  @param[out] rows  a table (a struct of columns), which the caller releases; others may read it as well, so it is not changed but for columns
 *                    that are the input's own (vicus_network_connect_private()). Not copied, but for truth values
 *  @param[out] what  ::VICUS_TAKEN_NOTHING, ::VICUS_TAKEN_ROWS (only then `rows` is written), ::VICUS_TAKEN_END */
int32_t vicus_turn_take(vicus_turn *turn, uint32_t input, struct ArrowArray *rows, int32_t *what);
/** Sends rows. They leave when the invocation ends. They are not copied, and released when the last reader has done with them; also if the call fails.
 *  A box that has much to send asks vicus_turn_has_room() before each, and returns after vicus_turn_run_again() if there is none.
 *  @param schema  the rows' own, if it is to be compared with the output's; it stays the caller's. `NULL`: the rows have the columns of the output
 *  @return ::VICUS_ERROR_SCHEMA if they don't fit, or a text is not UTF-8 */
int32_t vicus_turn_send(vicus_turn *turn, uint32_t output, struct ArrowArray *rows, const struct ArrowSchema *schema);
/** The schema of an input's tables, which the caller releases. */
int32_t vicus_turn_schema(vicus_turn *turn, uint32_t input, struct ArrowSchema *schema);
/** Ends an output. Each output is to be ended once. */
int32_t vicus_turn_end(vicus_turn *turn, uint32_t output);
/** Ends all outputs that have not ended. */
int32_t vicus_turn_end_all(vicus_turn *turn);
/** Takes no more from an input: its sender stops if it can. */
int32_t vicus_turn_close(vicus_turn *turn, uint32_t input);
/** Whether an output takes more rows in this invocation. */
int32_t vicus_turn_has_room(vicus_turn *turn, uint32_t output);
/** Asks to be invoked again, though nothing may come. */
void vicus_turn_run_again(vicus_turn *turn);
/** Calls a function that may block, such as one that writes to a slow pipe: meanwhile another thread runs other boxes. It does not use the turn.
 *  @return its status */
int32_t vicus_turn_blocking(vicus_turn *turn, vicus_task_fn function, void *data);
/** What resumes a paused box. */
typedef struct vicus_paused vicus_paused;
/** Lets the box rest when this invocation has returned, until vicus_resume() is called; no thread waits with it. For boxes that wait for something
 *  outside of the network. */
int32_t vicus_turn_pause(vicus_turn *turn, vicus_paused **paused);
/** Resumes a paused box and frees the handle; from any thread, and also if the run is over. To be called once for each pause. */
void vicus_resume(vicus_paused *paused);
/** Whether the run was cancelled or has failed: an invocation of more than 10 ms asks now and then, and returns. */
int32_t vicus_turn_is_stopped(vicus_turn *turn);
/** Says how many bytes the box holds, in total. @return ::VICUS_ERROR_LIMIT if the run's boxes hold more than they may; to be returned */
int32_t vicus_turn_book(vicus_turn *turn, uint64_t bytes);
/** The node of the running thread. */
uint32_t vicus_turn_node(vicus_turn *turn);

#ifdef __cplusplus
}
#endif

#endif
