/* An OpenMP program with each way to wait: for the children of a task, for a group of tasks, and at a barrier. Each task spins for the
   milliseconds that it is given. */

/* Not from omp.h: that of clang is a package of its own. */
double omp_get_wtime(void);
int omp_get_thread_num(void);

static void spin(double ms) {
    double end = omp_get_wtime() + ms / 1e3;
    while (omp_get_wtime() < end) {
    }
}

int main(void) {
#pragma omp parallel num_threads(2)
    {
#pragma omp single
        {
            static char one, other;
            /* The second follows the first, and no other task of the pair. */
#pragma omp task depend(out : one)
            spin(4);
#pragma omp task depend(in : one) depend(out : other)
            spin(3);
#pragma omp taskwait
#pragma omp taskgroup
            {
#pragma omp task
                {
#pragma omp task
                    spin(5);
                    spin(1);
                }
            }
        }
        /* One member comes late: the other waits at the barrier. */
        if (omp_get_thread_num() == 0) spin(6);
#pragma omp barrier
        spin(1);
    }
    return 0;
}
