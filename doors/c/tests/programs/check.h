/* What the programs check with: a condition that does not hold ends the program, and says where. */
#ifndef CHECK_H
#define CHECK_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                        \
    do {                                                                                                        \
        if (!(condition)) {                                                                                     \
            fprintf(stderr, "%s:%d: %s\n  the last error: %s\n", __FILE__, __LINE__, #condition, vicus_error_message()); \
            exit(1);                                                                                            \
        }                                                                                                       \
    } while (0)

/* The last error has this status, and its message these words. */
#define CHECK_ERROR(call, status, words)                       \
    do {                                                       \
        CHECK((call) == (status));                             \
        CHECK(vicus_error_status() == (status));               \
        CHECK(strstr(vicus_error_message(), (words)) != NULL); \
    } while (0)

#endif
