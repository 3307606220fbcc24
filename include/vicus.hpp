/**
 * @file vicus.hpp
 * Vicus for programs in C++ (C++17, with exceptions): vicus.h with owners, lambdas, views and exceptions. Headers alone; link with `-lvicus`.
 *
 * @code{.cpp}
 * #include <vicus.hpp>
 * #include <iostream>
 * #include <vector>
 *
 * int main() {
 *     std::vector<long> squares(1000);
 *     vicus::for_each(0, squares.size(), [&](std::size_t n) { squares[n] = long(n * n); });
 *     auto [low, high] = vicus::join([&] { return squares[1]; }, [&] { return squares[31]; });
 *     std::cout << low + high << '\n';
 * }
 * @endcode
 *
 * **Errors** are exceptions: vicus::error with a status. An exception that a callable throws in a task reaches whoever waits for that task, as it
 * was thrown; of several, the first one does.
 *
 * **Callables** are called on any thread of the runtime. What is spawned is moved to the heap once, if it is larger than a pointer or more than
 * bytes; what is called before its caller goes on (`run`, `join`, `for_each`, the body of a `scope`) is not moved at all.
 *
 * **Owners** can be moved, not copied, and free what they own. The functions outside of vicus::runtime run in the runtime of the calling task,
 * and outside of tasks in one with the default settings.
 *
 * vicus.h says what each call does, costs and forbids; here stands what C++ adds.
 */
#ifndef VICUS_HPP
#define VICUS_HPP

#include "vicus/library/arrow.hpp"
#include "vicus/library/memory.hpp"
#include "vicus/library/network.hpp"
#include "vicus/library/queries.hpp"
#include "vicus/library/tasks.hpp"

#endif
