/* As Qthreads installs it beside its folder. */
#include "qthread/qthread.h"
