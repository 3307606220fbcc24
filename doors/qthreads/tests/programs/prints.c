/* What functions print, and by that the cells of a table that has no other function. */
#include "check.h"
#include <qthread/barrier.h>
#include <qthread/dictionary.h>
#include <qthread/qthread.h>
#include <qthread/wavefront.h>
#include <unistd.h>

#define COLUMNS 5
#define ROWS 4

static FILE *file;
static int number, kept;

/* From now on a file has what goes to standard output, or to standard error. */
static void redirect(int to) {
  number = to;
  fflush(stdout);
  CHECK((file = tmpfile()) != NULL && (kept = dup(to)) >= 0 && dup2(fileno(file), to) == to);
}

static void printed(const char *expected) {
  char text[1000];
  size_t length;
  CHECK(dup2(kept, number) == number);
  close(kept);
  rewind(file);
  length = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[length] = 0;
  if (strcmp(text, expected) != 0) fprintf(stderr, "printed: %s", text);
  CHECK(strcmp(text, expected) == 0);
}

static int equal(void *a, void *b) { return a == b; }
static int hash(void *key) { return (int)(size_t)key; }

static aligned_t cells;

/* A cell tells its neighbours apart. */
static void cell(const void *restrict left, const void *restrict leftdown, const void *restrict down, void *restrict out) {
  *(aligned_t *)out = *(const aligned_t *)left + 10 * *(const aligned_t *)leftdown + 100 * *(const aligned_t *)down;
  qthread_incr(&cells, 1);
}

static void number_from_1(const size_t from, const size_t to, qarray *array, void *arg) {
  size_t index;
  for (index = from; index < to; index++) *(aligned_t *)qarray_elem(array, index) = (index + 1) * *(aligned_t *)arg;
}

static void lattice(void) {
  qarray *left = qarray_create(ROWS, sizeof(aligned_t)), *below = qarray_create(COLUMNS, sizeof(aligned_t));
  aligned_t one = 1, two = 2, table[ROWS][COLUMNS];
  char expected[1000] = "";
  int row, column;
  qt_wavefront_lattice *made;
  qarray_iter_loop(left, 0, ROWS, number_from_1, &one);
  qarray_iter_loop(below, 0, COLUMNS, number_from_1, &two);
  for (row = 0; row < ROWS; row++) table[row][0] = (aligned_t)row + 1;
  for (column = 1; column < COLUMNS; column++) table[0][column] = 2 * ((aligned_t)column + 1);
  for (row = 1; row < ROWS; row++) {
    for (column = 1; column < COLUMNS; column++) {
      table[row][column] = table[row][column - 1] + 10 * table[row - 1][column - 1] + 100 * table[row - 1][column];
    }
  }
  /* The lowest row is the last line. */
  for (row = ROWS - 1; row >= 0; row--) {
    for (column = 0; column < COLUMNS; column++) {
      sprintf(expected + strlen(expected), "%lu%c", (unsigned long)table[row][column], column + 1 < COLUMNS ? ' ' : '\n');
    }
  }
  made = qt_wavefront(left, below, cell);
  CHECK(made != NULL && cells == (ROWS - 1) * (COLUMNS - 1));
  redirect(STDOUT_FILENO);
  qt_wavefront_print_lattice(made);
  printed(expected);
  redirect(STDOUT_FILENO);
  qt_wavefront_print_lattice(NULL);
  printed("");
  qt_wavefront_destroy_lattice(made);
  qarray_destroy(left), qarray_destroy(below);
}

int main(void) {
  qt_dictionary *dictionary;
  qt_barrier_t *barrier;
  CHECK(qthread_initialize() == 0);
  dictionary = qt_dictionary_create(equal, hash, NULL);
  CHECK(qt_dictionary_put(dictionary, (void *)1, (void *)10) != NULL && qt_dictionary_put(dictionary, (void *)2, (void *)20) != NULL);
  CHECK(qt_dictionary_put(dictionary, (void *)1, (void *)30) == (void *)30);
  redirect(STDOUT_FILENO);
  qt_dictionary_printbuckets(dictionary);
  printed("2 entries\n");
  redirect(STDOUT_FILENO);
  qt_dictionary_printbuckets(NULL);
  printed("");
  qt_dictionary_destroy(dictionary);

  barrier = qt_barrier_create(6, LOOP_BARRIER);
  redirect(STDERR_FILENO);
  qt_barrier_dump(barrier, UPLOCK), qt_barrier_dump(barrier, DOWNLOCK), qt_barrier_dump(NULL, BOTHLOCKS);
  printed("barrier of 6: 0 wait\nbarrier of 6: 0 wait\n");
  qt_barrier_destroy(barrier);
  lattice();
  puts("ok");
  return 0;
}
