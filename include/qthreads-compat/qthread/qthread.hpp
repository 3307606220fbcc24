// What C++ has beside the functions of C.
#ifndef _QTHREAD_HPP_
#define _QTHREAD_HPP_

#include "qthread.h"
#include "syncvar.hpp"

#endif
