/* Calls of the system, values by key, timers, memory in files, and threads of the system. */
#include "check.h"
#include <pthread.h>
#include <arpa/inet.h>
#include <sys/wait.h>
#include <qthread/io.h>
#include <qthread/qalloc.h>
#include <qthread/qt_syscalls.h>
#include <qthread/qthread.h>
#include <qthread/qtimer.h>
#include <qthread/tls.h>
#include <unistd.h>

static int ends[2];
static aligned_t ran, given;
static qthread_key_t key;

static void destroyed(void *value) { qthread_incr(&ran, *(aligned_t *)value); }

static aligned_t values(void *arg) {
  CHECK(qthread_getspecific(key) == NULL && qthread_setspecific(key, arg) == 0);
  qthread_yield();
  CHECK(qthread_getspecific(key) == arg);
  return 0;
}

/* Waits for what only another thread writes: even a single worker runs that meanwhile. */
static aligned_t reader(void *arg) {
  char byte = 0;
  (void)arg;
  CHECK(qt_read(ends[0], &byte, 1) == 1 && byte == 'x');
  return 1;
}

static aligned_t writer(void *arg) {
  (void)arg;
  return (aligned_t)qt_write(ends[1], "x", 1);
}

static aligned_t acts(void *arg) {
  (void)arg;
  qt_begin_blocking_action();
  CHECK(qthread_shep() == NO_SHEPHERD && qthread_id() != QTHREAD_NON_TASK_ID);
  qt_end_blocking_action();
  return qthread_shep();
}

static aligned_t connects(void *arg) {
  int client = socket(AF_INET, SOCK_STREAM, 0);
  int code = qt_connect(client, arg, sizeof(struct sockaddr_in));
  close(client);
  return (aligned_t)(unsigned)code;
}

static aligned_t plus(void *arg) { return (aligned_t)(size_t)arg + 1; }

static void *outside(void *arg) {
  aligned_t ret, word = 0;
  int index;
  (void)arg;
  CHECK(qthread_shep() == NO_SHEPHERD && qthread_migrate_to(0) == QTHREAD_NOT_ALLOWED);
  for (index = 0; index < 20; index++) {
    CHECK(qthread_fork(plus, (void *)(size_t)index, &ret) == 0 && qthread_readFF(&ret, &ret) == 0 && ret == (aligned_t)index + 1);
  }
  CHECK(qthread_lock(&word) == 0 && qthread_unlock(&word) == 0);
  qthread_yield();
  CHECK(qthread_writeEF_const(&given, 12) == 0);
  return NULL;
}

static void files(void) {
  char static_name[] = "/tmp/vicus-qalloc-XXXXXX", any_name[] = "/tmp/vicus-qalloc-XXXXXX";
  void *same, *any, *block, *again;
  close(mkstemp(static_name)), close(mkstemp(any_name));
  same = qalloc_makestatmap(1 << 16, NULL, static_name, 48, 3);
  any = qalloc_makedynmap(1 << 16, NULL, any_name, 3);
  CHECK(same != NULL && any != NULL);
  block = qalloc_statmalloc(same);
  CHECK(block != NULL);
  qalloc_statfree(block, same);
  CHECK(qalloc_malloc(same, 0) == block);
  block = qalloc_dynmalloc(any, 100);
  again = qalloc_malloc(any, 1000);
  CHECK(block != NULL && again != NULL && qalloc_malloc(any, 1 << 20) == NULL);
  memset(block, 7, 100), memset(again, 8, 1000);
  qalloc_free(again, any);
  CHECK(qalloc_malloc(any, 900) == again);
  qalloc_checkpoint();
  qalloc_cleanup();
  CHECK(qalloc_loadmap(any_name) == any && ((char *)block)[99] == 7);
  qalloc_dynfree(block, any);
  CHECK(qalloc_dynmalloc(any, 90) == block);
  qalloc_cleanup();
  CHECK(qalloc_loadmap("/nowhere/at/all") == NULL);
  unlink(static_name), unlink(any_name);
}

int main(void) {
  aligned_t ret, other, three = 3;
  pthread_t thread;
  qtimer_t timer = qtimer_create();
  char byte;
  CHECK(qthread_initialize() == 0);
  CHECK(qthread_key_create(&key, destroyed) == 0);
  CHECK(qthread_fork(values, &three, &ret) == 0 && qthread_readFF(NULL, &ret) == 0 && ran == 3);
  CHECK(qthread_setspecific(key, NULL) == 0 && qthread_key_delete(key) == 0 && qthread_key_delete(key) == QTHREAD_BADARGS);
  CHECK(qthread_setspecific(key, &three) == QTHREAD_BADARGS);

  CHECK(pipe(ends) == 0);
  CHECK(qthread_fork(reader, NULL, &ret) == 0 && qthread_fork(writer, NULL, &other) == 0);
  CHECK(qthread_readFF(&ret, &ret) == 0 && ret == 1 && qthread_readFF(&other, &other) == 0 && other == 1);
  CHECK(qt_write(ends[1], "y", 1) == 1);
  {
    struct pollfd wanted = {ends[0], POLLIN, 0};
    struct timeval none = {0, 0};
    fd_set set;
    int status = 0;
    pid_t child;
    CHECK(qt_poll(&wanted, 1, 1000) == 1);
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    CHECK(qt_select(ends[0] + 1, &set, NULL, NULL, &none) == 1);
    CHECK(qt_read(ends[0], &byte, 1) == 1 && byte == 'y');
    CHECK(qt_read(-1, &byte, 1) == -1 && errno == EBADF);
    CHECK(qt_system("exit 3") >> 8 == 3);
    child = fork();
    /* A child of the process has none of its workers, and ends all the same. */
    if (child == 0) exit(4);
    CHECK(qt_wait4(child, &status, 0, NULL) == child && WEXITSTATUS(status) == 4);
  }
  {
    char name[] = "/tmp/vicus-qthreads-XXXXXX", back[4] = "";
    int file = mkstemp(name);
    CHECK(qt_pwrite(file, "abc", 3, 5) == 3 && qt_pread(file, back, 3, 5) == 3 && back[2] == 'c');
    close(file), unlink(name);
  }
  {
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int server = socket(AF_INET, SOCK_STREAM, 0), client;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(bind(server, (struct sockaddr *)&address, length) == 0 && listen(server, 1) == 0);
    CHECK(getsockname(server, (struct sockaddr *)&address, &length) == 0);
    CHECK(qthread_fork(connects, &address, &ret) == 0);
    client = qt_accept(server, NULL, NULL);
    CHECK(client >= 0 && qthread_readFF(&ret, &ret) == 0 && ret == 0);
    close(client), close(server);
  }
  CHECK(qthread_fork(acts, NULL, &ret) == 0 && qthread_readFF(&ret, &ret) == 0 && ret < qthread_num_shepherds());

  qtimer_start(timer);
  usleep(2000);
  qtimer_stop(timer);
  CHECK(qtimer_secs(timer) >= 0.002 && qtimer_res() < 1 && qtimer_wtime() > 0 && qtimer_fastrand() != qtimer_fastrand());
  qtimer_destroy(timer);
  files();

  /* Threads of the system fork, wait and write. */
  CHECK(qthread_empty(&given) == 0 && pthread_create(&thread, NULL, outside, NULL) == 0);
  CHECK(qthread_readFE(&ret, &given) == 0 && ret == 12 && qthread_fill(&given) == 0);
  pthread_join(thread, NULL);

  /* It may end and begin again; a thread that waits for ever is left behind. */
  {
    int round;
    static aligned_t never;
    for (round = 0; round < 2; round++) {
      CHECK(qthread_fork(plus, (void *)4, &ret) == 0 && qthread_readFF(&ret, &ret) == 0 && ret == 5);
      if (round == 1) CHECK(qthread_empty(&never) == 0 && qthread_fork_precond(plus, NULL, NULL, 1, &never) == 0);
      qthread_finalize();
      qthread_finalize();
      CHECK(qthread_shep() == NO_SHEPHERD && qthread_num_workers() == 0);
      CHECK(qthread_fork(plus, NULL, NULL) == QTHREAD_NOT_ALLOWED);
      CHECK(qthread_initialize() == 0 && qthread_id() == 1);
    }
    CHECK(qthread_fill(&never) == 0);
    CHECK(qthread_fork(plus, (void *)4, &ret) == 0 && qthread_readFF(&ret, &ret) == 0 && ret == 5);
  }
  puts("ok");
  return 0;
}
