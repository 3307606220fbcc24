// C++: objects that tasks copy, exceptions inside of regions, regions in destructors of statics.
#include "check.h"
#include <omp.h>
#include <stdexcept>
#include <string>
#include <vector>

static int alive = 0;

struct Counted {
  Counted *self;
  int value;
  explicit Counted(int value) : self(this), value(value) {
#pragma omp atomic
    alive++;
  }
  Counted(const Counted &other) : self(this), value(other.value) {
    CHECK(other.self == &other);
#pragma omp atomic
    alive++;
  }
  ~Counted() {
    CHECK(self == this);
#pragma omp atomic
    alive--;
  }
};

struct Last {
  ~Last() {
    int sum = 0;
#pragma omp parallel num_threads(2) reduction(+ : sum)
    sum += 1;
    CHECK(sum == 2);
    puts("ok");
  }
};
static Last last;

int main() {
  int sum = 0;
#pragma omp parallel
#pragma omp single
  {
    for (int at = 0; at < 100; at++) {
      Counted counted(at);
      std::string text(100, 'x');
#pragma omp task firstprivate(counted, text) shared(sum)
      {
        CHECK(counted.self == &counted && text.size() == 100);
#pragma omp atomic
        sum += counted.value;
      }
#pragma omp task firstprivate(counted) if (at % 2) shared(sum)
      {
#pragma omp atomic
        sum += counted.value;
      }
    }
    Counted counted(1);
#pragma omp taskloop firstprivate(counted) grainsize(3)
    for (int at = 0; at < 50; at++) {
#pragma omp atomic
      sum += counted.value;
    }
  }
  CHECK(sum == 2 * 4950 + 50);
  CHECK(alive == 0);
  int caught = 0;
#pragma omp parallel
  {
    for (int at = 0; at < 10; at++) {
      try {
        if (at % 2) throw std::runtime_error("in a region");
      } catch (const std::exception &) {
#pragma omp atomic
        caught++;
      }
#pragma omp task shared(caught)
      {
        try {
          std::vector<int>().at(1);
        } catch (const std::out_of_range &) {
#pragma omp atomic
          caught++;
        }
      }
    }
  }
  CHECK(caught == 15 * omp_get_max_threads());
  return 0;
}
