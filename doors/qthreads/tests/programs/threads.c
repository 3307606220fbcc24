/* Threads: all ways to fork, what they know of themselves, where they run, teams. */
#include "check.h"
#include <qthread/cacheline.h>
#include <qthread/qloop.h>
#include <qthread/qthread.h>
#include <qthread/sinc.h>

static aligned_t ran;

static aligned_t add(void *arg) { return qthread_incr(&ran, 1) * 0 + *(aligned_t *)arg + 1; }

static aligned_t where(void *arg) {
  qthread_shepherd_id_t shep = NO_SHEPHERD;
  (void)arg;
  CHECK(qthread_worker(&shep) < qthread_readstate(TOTAL_WORKERS) && shep == qthread_shep());
  CHECK(qthread_worker_unique(NULL) == qthread_worker(NULL));
  CHECK(qthread_worker_local(&shep) < qthread_num_workers_local(shep));
  CHECK(qthread_shep_ok() == 1);
  return qthread_shep();
}

static aligned_t wander(void *arg) {
  qthread_shepherd_id_t shep, sheps = qthread_num_shepherds();
  unsigned id = qthread_id();
  (void)arg;
  for (shep = 0; shep < sheps; shep++) {
    CHECK(qthread_migrate_to(shep) == QTHREAD_SUCCESS);
    CHECK(qthread_shep() == shep && qthread_id() == id);
    qthread_yield();
    qthread_yield_near();
    CHECK(qthread_shep() == shep);
  }
  CHECK(qthread_migrate_to(sheps) == QTHREAD_BADARGS);
  return id;
}

static aligned_t silent(void *arg) {
  (void)arg;
  return 0;
}

static aligned_t asks(void *arg) {
  (void)arg;
  return qthread_id();
}

static void asks_in_loop(const size_t from, const size_t to, void *arg) {
  (void)from;
  (void)to;
  qthread_incr((aligned_t *)arg, qthread_id());
}

__attribute__((noinline)) static size_t deeper(size_t left) {
  volatile char here[512];
  size_t index, sum = 0;
  for (index = 0; index < sizeof here; index++) here[index] = 1;
  left -= qthread_stackleft();
  for (index = 0; index < sizeof here; index++) sum += (size_t)here[index];
  return sum == sizeof here ? left : 0;
}

static aligned_t self(void *arg) {
  char *local = qthread_get_tasklocal(16);
  size_t left = qthread_stackleft();
  CHECK(qthread_size_tasklocal() >= 16);
  local[0] = 7;
  local = qthread_get_tasklocal(4096);
  CHECK(local[0] == 7 && qthread_size_tasklocal() >= 4096);
  CHECK((char *)qthread_bos() < local || (char *)qthread_bos() > local);
  CHECK(qthread_tos() > qthread_bos() && left > 1024);
  CHECK(deeper(left) >= 512);
  CHECK(qthread_retloc() == arg);
  return 3;
}

/* Pairs that hand values to and fro: a thread that was forked to a shepherd stays there, and all keep what is theirs wherever they go on. */
static aligned_t handed[20][2];

static aligned_t hands(void *arg) {
  size_t number = (size_t)arg, pair = number / 2, side = number % 2, step;
  aligned_t value, sum = 0, id = qthread_id();
  char *local = qthread_get_tasklocal(16);
  qthread_shepherd_id_t shep = qthread_shep();
  local[0] = (char)number;
  for (step = 0; step < 200; step++) {
    value = step;
    CHECK(qthread_writeEF(&handed[pair][side], &value) == QTHREAD_SUCCESS);
    CHECK(qthread_readFE(&value, &handed[pair][1 - side]) == QTHREAD_SUCCESS && value == step);
    sum += value;
    CHECK(qthread_id() == id && ((char *)qthread_get_tasklocal(16))[0] == (char)number);
    CHECK(number % 4 > 0 || qthread_shep() == shep);
  }
  return sum;
}

static void hand_to_and_fro(void) {
  aligned_t rets[40];
  size_t number;
  for (number = 0; number < 40; number++) qthread_empty(&handed[number / 2][number % 2]);
  for (number = 0; number < 40; number++) {
    if (number % 4) CHECK(qthread_fork(hands, (void *)number, &rets[number]) == QTHREAD_SUCCESS);
    else CHECK(qthread_fork_to(hands, (void *)number, &rets[number], (qthread_shepherd_id_t)(number % qthread_num_shepherds())) == QTHREAD_SUCCESS);
  }
  for (number = 0; number < 40; number++) CHECK(qthread_readFF(NULL, &rets[number]) == QTHREAD_SUCCESS && rets[number] == 19900);
  for (number = 0; number < 40; number++) qthread_fill(&handed[number / 2][number % 2]);
}

static aligned_t child_of_team(void *arg) {
  unsigned *id = arg;
  CHECK(qt_team_id() == *id);
  qthread_yield();
  qt_team_critical_section(BEGIN);
  ran++;
  qt_team_critical_section(END);
  return 0;
}

static aligned_t team(void *arg) {
  static unsigned ids[4];
  unsigned *id = &ids[(size_t)arg];
  int index;
  *id = qt_team_id();
  CHECK(*id > QTHREAD_DEFAULT_TEAM_ID);
  for (index = 0; index < 5; index++) {
    CHECK(qthread_fork(child_of_team, id, NULL) == QTHREAD_SUCCESS);
  }
  return qt_team_parent_id();
}

static aligned_t teams(void *arg) {
  aligned_t parent;
  (void)arg;
  CHECK(qthread_fork_new_subteam(team, (void *)2, &parent) == QTHREAD_SUCCESS);
  qthread_readFF(&parent, &parent);
  CHECK(parent == qt_team_id());
  return 0;
}

int main(void) {
  aligned_t ret, one = 1, *list[2];
  syncvar_t var = SYNCVAR_STATIC_INITIALIZER;
  uint64_t value;
  qt_sinc_t sinc;
  qthread_shepherd_id_t shep, other;
  int index;
  CHECK(qthread_shep() == NO_SHEPHERD && qthread_id() == QTHREAD_NON_TASK_ID);
  CHECK(qthread_initialize() == QTHREAD_SUCCESS);
  CHECK(qthread_initialize() == QTHREAD_SUCCESS && qthread_init(5) == QTHREAD_SUCCESS);
  CHECK(qthread_id() == 1 && qthread_shep() == 0 && qthread_worker(&shep) == 0 && shep == 0);
  CHECK(qthread_num_shepherds() == atoi(getenv("QT_NUM_SHEPHERDS")));
  CHECK(qthread_num_workers() == qthread_num_shepherds() * atoi(getenv("QT_NUM_WORKERS_PER_SHEPHERD")));
  CHECK(qthread_cacheline() >= 16);

  /* Numbers go to those that ask. */
  for (index = 0; index < 5000; index++) {
    CHECK(qthread_fork(silent, NULL, &ret) == QTHREAD_SUCCESS);
    qthread_readFF(&ret, &ret);
  }
  CHECK(qthread_fork(asks, NULL, &ret) == QTHREAD_SUCCESS);
  qthread_readFF(&ret, &ret);
  CHECK(ret == 2);
  ret = 0;
  qt_loop(0, 3, asks_in_loop, &ret);
  CHECK(ret == 3 + 4 + 5);

  /* Results. */
  for (index = 0; index < 50; index++) {
    CHECK(qthread_fork(add, &one, &ret) == QTHREAD_SUCCESS && qthread_readFF(&ret, &ret) == QTHREAD_SUCCESS && ret == 2);
  }
  CHECK(qthread_fork_net(add, &one, &ret) == QTHREAD_SUCCESS && qthread_readFE(&ret, &ret) == QTHREAD_SUCCESS && ret == 2);
  CHECK(qthread_fork_syncvar(add, &one, &var) == 0 && qthread_syncvar_readFF(&value, &var) == 0 && value == 2);
  CHECK(qthread_fork_syncvar_to(add, &one, &var, 0) == 0 && qthread_syncvar_readFF(&value, &var) == 0 && value == 2);
  CHECK(qthread_fork_copyargs(add, &one, sizeof one, &ret) == 0 && qthread_readFF(&ret, &ret) == 0 && ret == 2);
  CHECK(qthread_fork_copyargs_to(add, &one, sizeof one, (syncvar_t *)&ret, 0) == 0 && qthread_readFF(&ret, &ret) == 0 && ret == 2);
  CHECK(qthread_fork_syncvar_copyargs(add, &one, sizeof one, &var) == 0 && qthread_syncvar_readFF(&value, &var) == 0);
  CHECK(qthread_fork_syncvar_copyargs_simple(add, &one, sizeof one, &var) == 0 && qthread_syncvar_readFF(&value, &var) == 0);
  CHECK(qthread_fork_syncvar_copyargs_to(add, &one, sizeof one, &var, 0) == 0 && qthread_syncvar_readFF(&value, &var) == 0);
  CHECK(value == 2);
  qt_sinc_init(&sinc, 0, NULL, NULL, 2);
  CHECK(qthread_spawn(add, &one, 0, &sinc, 0, NULL, NO_SHEPHERD, QTHREAD_SPAWN_RET_SINC) == 0);
  CHECK(qthread_spawn(add, &one, 0, &sinc, 0, NULL, NO_SHEPHERD, QTHREAD_SPAWN_RET_SINC_VOID) == 0);
  qt_sinc_wait(&sinc, NULL);
  qt_sinc_fini(&sinc);
  qthread_call_method(add, &one, &ret, 0);
  CHECK(ret == 2);
  /* Arguments of any size are the thread's own. */
  {
    aligned_t many[100], rets[8];
    for (index = 0; index < 8; index++) {
      many[0] = (aligned_t)index;
      CHECK(qthread_fork_copyargs(add, many, sizeof many, &rets[index]) == 0);
      many[0] = 99;
    }
    for (index = 0; index < 8; index++) {
      CHECK(qthread_readFF(&ret, &rets[index]) == 0 && ret == (aligned_t)index + 1);
    }
  }

  /* Preconditions. */
  {
    aligned_t first = 0, second = 0;
    list[0] = &first, list[1] = &second;
    qthread_empty(&first), qthread_empty(&second);
    CHECK(qthread_fork_precond(add, &one, &ret, 2, &first, &second) == 0);
    CHECK(!qthread_feb_status(&ret));
    qthread_fill(&first), qthread_fill(&second);
    CHECK(qthread_readFF(&ret, &ret) == 0 && ret == 2);
    qthread_empty(&second);
    CHECK(qthread_fork_precond_simple(add, &one, &ret, -2, list) == 0);
    qthread_fill(&second);
    CHECK(qthread_readFF(&ret, &ret) == 0 && ret == 2);
    CHECK(qthread_fork_precond_to(add, &one, &ret, 0, 1, &first) == 0 && qthread_readFF(NULL, &ret) == 0);
    CHECK(qthread_fork_precond(add, &one, &ret, 0) == 0 && qthread_readFF(NULL, &ret) == 0);
    CHECK(qthread_fork_copyargs_precond(add, &one, sizeof one, &var, 1, &first) == 0);
    CHECK(qthread_syncvar_readFF(&value, &var) == 0 && value == 2);
  }
  {
    static syncvar_t first = SYNCVAR_STATIC_EMPTY_INITIALIZER, second = SYNCVAR_STATIC_INITIALIZER;
    uintptr_t *vars = malloc(3 * sizeof *vars);
    aligned_t before = ran;
    vars[0] = 2, vars[1] = (uintptr_t)&second, vars[2] = (uintptr_t)&first;
    CHECK(qthread_spawn(add, &one, 0, &ret, 2, vars, NO_SHEPHERD, QTHREAD_SPAWN_PC_SYNCVAR_T) == 0);
    for (index = 0; index < 10; index++) qthread_yield();
    CHECK(!qthread_feb_status(&ret) && ran == before);
    CHECK(qthread_syncvar_writeEF_const(&first, 9) == 0 && qthread_readFF(&ret, &ret) == 0 && ret == 2 && ran == before + 1);
    CHECK(first.u.s.data == 9);
  }

  /* Places. */
  for (shep = 0; shep < qthread_num_shepherds(); shep++) {
    const qthread_shepherd_id_t *sorted = qthread_sorted_sheps_remote(shep);
    for (index = 0; index < 5; index++) {
      CHECK(qthread_fork_to(where, NULL, &ret, shep) == 0 && qthread_readFF(&ret, &ret) == 0 && ret == shep);
    }
    CHECK(qthread_distance(shep, shep) == 0);
    for (other = 0; other + 1 < qthread_num_shepherds(); other++) {
      CHECK(sorted[other] < qthread_num_shepherds() && sorted[other] != shep);
      CHECK(qthread_distance(shep, sorted[other]) > 0);
      CHECK(other == 0 || qthread_distance(shep, sorted[other - 1]) <= qthread_distance(shep, sorted[other]));
    }
    other = shep;
    qthread_shep_next(&other);
    CHECK(other == (shep + 1) % qthread_num_shepherds());
    qthread_shep_prev(&other);
    CHECK(other == shep);
    qthread_shep_next_local(&other);
    qthread_shep_prev_local(&other);
    CHECK(other == shep);
  }
  CHECK((qthread_sorted_sheps() == NULL) == (qthread_num_shepherds() == 1));
  CHECK(qthread_fork(wander, NULL, &ret) == 0 && qthread_readFF(&ret, &ret) == 0 && ret > 1);
  CHECK(qthread_fork(self, &ret, &ret) == 0 && qthread_readFF(&ret, &ret) == 0 && ret == 3);
  CHECK(qthread_stackleft() == 0 && qthread_tos() == NULL && qthread_retloc() == NULL);

  /* Shepherds and workers that are counted no more. */
  CHECK(qthread_disable_shepherd(0) == QTHREAD_NOT_ALLOWED && qthread_disable_worker(0) == QTHREAD_NOT_ALLOWED);
  if (qthread_num_shepherds() > 1) {
    qthread_shepherd_id_t before = qthread_num_shepherds();
    CHECK(qthread_disable_shepherd(1) == 0 && qthread_num_shepherds() == before - 1);
    CHECK(qthread_fork_to(where, NULL, &ret, 1) == 0 && qthread_readFF(&ret, &ret) == 0 && ret != 1);
    for (index = 0; index < 6; index++) {
      CHECK(qthread_fork(where, NULL, &ret) == 0 && qthread_readFF(&ret, &ret) == 0);
    }
    qthread_reset_target_shep();
    qthread_enable_shepherd(1);
    CHECK(qthread_num_shepherds() == before);
    CHECK(qthread_disable_worker(qthread_num_workers() - 1) == 0);
    qthread_enable_worker(qthread_num_workers());
    CHECK(qthread_num_shepherds() == before);
  }

  hand_to_and_fro();

  /* State. */
  CHECK(qthread_readstate(STACK_SIZE) >= 4096 && qthread_readstate(RUNTIME_DATA_SIZE) > 0);
  CHECK(qthread_readstate(TOTAL_SHEPHERDS) == qthread_num_shepherds());
  CHECK(qthread_readstate(ACTIVE_SHEPHERDS) == qthread_num_shepherds());
  CHECK(qthread_readstate(TOTAL_WORKERS) == qthread_num_workers());
  CHECK(qthread_readstate(ACTIVE_WORKERS) == qthread_num_workers());
  CHECK(qthread_readstate(BUSYNESS) >= 1 && qthread_readstate(NODE_BUSYNESS) >= 1);
  CHECK(qthread_readstate(WORKER_OCCUPATION) >= 1 && qthread_readstate(CURRENT_SHEPHERD) == 0);
  CHECK(qthread_readstate(CURRENT_WORKER) == 0 && qthread_readstate(CURRENT_UNIQUE_WORKER) == 0);
  CHECK(qthread_readstate(CURRENT_TEAM) == QTHREAD_DEFAULT_TEAM_ID && qthread_readstate(PARENT_TEAM) == 0);
  qthread_flushsc();

  /* The end of a team's leader is that of all of it. */
  CHECK(qt_team_id() == QTHREAD_DEFAULT_TEAM_ID && qt_team_parent_id() == QTHREAD_NON_TEAM_ID);
  ran = 0;
  CHECK(qthread_fork_new_team(team, (void *)0, &ret) == 0 && qthread_readFF(&ret, &ret) == 0);
  CHECK(ret == QTHREAD_NON_TEAM_ID && ran == 5);
  CHECK(qthread_fork_new_subteam(team, (void *)1, &ret) == 0 && qthread_readFF(&ret, &ret) == 0);
  CHECK(ret == QTHREAD_DEFAULT_TEAM_ID && ran == 10);
  CHECK(qthread_fork_new_team(teams, NULL, &ret) == 0 && qthread_readFF(NULL, &ret) == 0 && ran == 15);
  CHECK(qthread_fork_new_team_to(team, (void *)0, &ret, 0) == 0 && qthread_readFF(NULL, &ret) == 0 && ran == 20);
  CHECK(qthread_fork_syncvar_new_team(team, (void *)0, &var) == 0 && qthread_syncvar_readFF(&value, &var) == 0);
  CHECK(value == QTHREAD_NON_TEAM_ID && ran == 25);
  CHECK(qthread_fork_syncvar_new_subteam(team, (void *)0, &var) == 0 && qthread_syncvar_readFF(&value, &var) == 0);
  CHECK(value == QTHREAD_DEFAULT_TEAM_ID && ran == 30);
  CHECK(qthread_fork_copyargs_new_team(add, &one, sizeof one, &ret) == 0 && qthread_readFF(&ret, &ret) == 0 && ret == 2);
  CHECK(qthread_fork_copyargs_new_subteam(add, &one, sizeof one, &ret) == 0 && qthread_readFF(&ret, &ret) == 0 && ret == 2);
  puts("ok");
  return 0;
}
