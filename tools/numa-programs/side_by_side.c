// Starts several processes of one program side by side, as mpiexec does, and ends with 0 if all of them do.
// Arguments: how many, how their processors are given to them, and the program with its arguments. `affinity`: each has
// its share of this process's processors, by sched_setaffinity; `cpuset`: by a cgroup of its own, with the memory of
// its nodes; `all`: each has all of them.
#include "kernel.h"
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void write_to(const char *folder, const char *file, const char *text) {
  char path[160];
  snprintf(path, sizeof path, "%s/%s", folder, file);
  int to = open(path, O_WRONLY);
  if (to < 0 || write(to, text, strlen(text)) < 0) {
    perror(path);
    _exit(2);
  }
  close(to);
}

// The members of a list as the kernel takes it.
static void add(char *list, int number) {
  sprintf(list + strlen(list), "%s%d", *list ? "," : "", number);
}

// The calling process goes into a cgroup with these processors.
static void enter(int rank, const cpu_set_t *own, const cpu_set_t *allowed) {
  char folder[80], cpus[256] = "", nodes[64] = "", pid[16];
  int homes[NODES], count = homes_of(own, homes);
  if (count == 0) count = homes_of(allowed, homes);
  for (int cpu = 0; cpu < 64; cpu++)
    if (CPU_ISSET(cpu, own)) add(cpus, cpu);
  for (int home = 0; home < count; home++) add(nodes, homes[home]);
  snprintf(folder, sizeof folder, "/sys/fs/cgroup/rank-%d", rank);
  mkdir(folder, 0755);
  write_to(folder, "cpuset.cpus", cpus);
  write_to(folder, "cpuset.mems", nodes);
  snprintf(pid, sizeof pid, "%d", (int)getpid());
  write_to(folder, "cgroup.procs", pid);
}

int main(int count, char **arguments) {
  CHECK(count > 3);
  int ranks = atoi(arguments[1]), cpus[64], all = 0, failed = 0;
  cpu_set_t allowed = own_cpus();
  for (int cpu = 0; cpu < 64; cpu++)
    if (CPU_ISSET(cpu, &allowed)) cpus[all++] = cpu;
  if (strcmp(arguments[2], "cpuset") == 0) write_to("/sys/fs/cgroup", "cgroup.subtree_control", "+cpuset");
  for (int rank = 0; rank < ranks; rank++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child > 0) continue;
    cpu_set_t own;
    CPU_ZERO(&own);
    // Neighbours, which are of one node where there are as many as ranks.
    for (int at = rank * all / ranks; at < (rank + 1) * all / ranks; at++) CPU_SET(cpus[at], &own);
    if (CPU_COUNT(&own) == 0) CPU_SET(cpus[rank % all], &own);
    if (strcmp(arguments[2], "affinity") == 0) CHECK(sched_setaffinity(0, sizeof own, &own) == 0);
    if (strcmp(arguments[2], "cpuset") == 0) enter(rank, &own, &allowed);
    execvp(arguments[3], arguments + 3);
    perror(arguments[3]);
    _exit(2);
  }
  for (int rank = 0; rank < ranks; rank++) {
    int status;
    CHECK(wait(&status) > 0);
    failed += status != 0;
  }
  if (failed) fprintf(stderr, "%d of %d processes failed\n", failed, ranks);
  return failed > 0;
}
