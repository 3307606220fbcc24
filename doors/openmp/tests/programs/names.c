// A program that has functions with names of the C library, which others of its objects use: theirs are called by nobody else.
#include <stdio.h>

static int calls;

long read(int a, void *b, long c) { return calls++, -1; }
long write(int a, const void *b, long c) { return calls++, -1; }
int open(const char *a, int b, ...) { return calls++, -1; }
int open64(const char *a, int b, ...) { return calls++, -1; }
int close(int a) { return calls++, -1; }
int access(const char *a, int b) { return calls++, -1; }
long readlink(const char *a, char *b, unsigned long c) { return calls++, -1; }
int poll(void *a, unsigned long b, int c) { return calls++, -1; }
void *opendir(const char *a) { return calls++, (void *)0; }

int main(void) {
  int sum = 0;
#pragma omp parallel for reduction(+ : sum) schedule(dynamic)
  for (int at = 0; at < 1000; at++) sum += at;
#pragma omp parallel
#pragma omp single
#pragma omp taskloop reduction(+ : sum)
  for (int at = 0; at < 1000; at++) sum += at;
  if (sum != 999000 || calls != 0) {
    printf("%d, %d calls\n", sum, calls);
    return 1;
  }
  puts("ok");
  return 0;
}
