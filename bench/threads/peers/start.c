/* What each program pays for: the start of the library, and its end. */
#include <qthread/qthread.h>

int main(void) { return qthread_initialize() != QTHREAD_SUCCESS; }
