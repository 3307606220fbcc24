/* A dictionary that threads use at once. */
#ifndef QT_DICTIONARY_H
#define QT_DICTIONARY_H

#include <inttypes.h>
#include <stdlib.h>

#include "macros.h"

Q_STARTCXX

#define DELETE_SUPPORT
#define ERROR ((void *)(-1))

/* Not 0 if the keys are equal. */
typedef int (*qt_dict_key_equals_f)(void *, void *);
typedef int (*qt_dict_hash_f)(void *);
/* Called with key and value when they leave the dictionary; may be null. */
typedef void (*qt_dict_cleanup_f)(void *, void *);

struct list_entry {
  void *value;
  void *key;
  uint64_t hashed_key;
  struct list_entry *next;
};
typedef struct list_entry list_entry;
typedef struct qt_dictionary qt_dictionary;
typedef struct qt_dictionary_iterator qt_dictionary_iterator;

qt_dictionary *qt_dictionary_create(qt_dict_key_equals_f eq, qt_dict_hash_f hash, qt_dict_cleanup_f cleanup);
void qt_dictionary_destroy(qt_dictionary *d);
/* Puts a value in place of the one that there was. The value. */
void *qt_dictionary_put(qt_dictionary *dict, void *key, void *value);
/* The value that is there now. */
void *qt_dictionary_put_if_absent(qt_dictionary *dict, void *key, void *value);
/* Null if there is none. */
void *qt_dictionary_get(qt_dictionary *dict, void *key);
/* The value that it had, or null. */
void *qt_dictionary_delete(qt_dictionary *dict, void *key);

/* Before the first entry. What is put or deleted meanwhile may be seen or not. */
qt_dictionary_iterator *qt_dictionary_iterator_create(qt_dictionary *dict);
void qt_dictionary_iterator_destroy(qt_dictionary_iterator *it);
/* The next entry; null at the end; ERROR for an iterator of no dictionary. */
list_entry *qt_dictionary_iterator_next(qt_dictionary_iterator *it);
list_entry *qt_dictionary_iterator_get(const qt_dictionary_iterator *it);
/* Behind the last entry. */
qt_dictionary_iterator *qt_dictionary_end(qt_dictionary *dict);
int qt_dictionary_iterator_equals(qt_dictionary_iterator *a, qt_dictionary_iterator *b);
qt_dictionary_iterator *qt_dictionary_iterator_copy(qt_dictionary_iterator *b);
void qt_dictionary_printbuckets(qt_dictionary *dict);

Q_ENDCXX

#endif
