/* On which nodes the main thread and what is forked to shepherds run. */
#include "kernel.h"
#include <qthread/qthread.h>

#define EACH 50

static aligned_t look(void *to) {
  *(int *)to = node_here();
  work_ms(1);
  return 0;
}

int main(void) {
  cpu_set_t allowed = own_cpus(), here, after;
  int of_shepherd[64], seen[NODES] = {0};
  CHECK(qthread_initialize() == 0);
  here = own_cpus();
  int shepherds = (int)qthread_num_shepherds(), nodes = nodes_with(&allowed);
  CHECK(shepherds >= 1 && shepherds <= 64);
  CHECK(nodes_with(&here) == 1);
  /* Each shepherd has as many workers, so some of the processors may have none. */
  int workers = (int)qthread_num_workers(), most = within_quota(&allowed);
  CHECK(workers <= most && workers * 2 > most);
  printf("node by shepherd");
  for (int shepherd = 0; shepherd < shepherds; shepherd++) {
    aligned_t rets[EACH];
    int on[EACH];
    for (int at = 0; at < EACH; at++) {
      CHECK(qthread_fork_to(look, &on[at], &rets[at], (qthread_shepherd_id_t)shepherd) == 0);
    }
    for (int at = 0; at < EACH; at++) CHECK(qthread_readFF(NULL, &rets[at]) == 0);
    of_shepherd[shepherd] = on[0];
    printf(" %d (%u workers)", on[0], qthread_num_workers_local((qthread_shepherd_id_t)shepherd));
    /* All of them on one node. */
    for (int at = 0; at < EACH; at++) CHECK(on[at] == on[0]);
    seen[on[0]]++;
  }
  printf("; main thread on node %d\n", node_here());
  CHECK(qthread_shep() == 0 && node_here() == of_shepherd[0]);
  /* As many shepherds as nodes: each has its own. With more, no node is without. */
  int without = nodes;
  for (int node = 0; node < NODES; node++) without -= seen[node] > 0;
  CHECK(without == 0 || shepherds < nodes);
  qthread_finalize();
  after = own_cpus();
  CHECK(CPU_EQUAL(&after, &allowed));
  puts("ok");
  return 0;
}
