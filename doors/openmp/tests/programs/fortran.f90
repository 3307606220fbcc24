! What programs in Fortran use: constructs, and functions whose arguments are passed by address, in both sizes of integers, and texts.
program fortran
  use omp_lib
  implicit none
  integer, parameter :: many = 1000
  integer :: at, total, threads, kind_of, chunk, number, copied, least
  integer(8) :: wide
  integer :: numbers(many), marks(0:63), step(8)
  real(8) :: values(many), begin
  integer(kind=omp_lock_kind) :: lock
  integer(kind=omp_nest_lock_kind) :: nested
  integer(kind=omp_sched_kind) :: schedule
  character(len=40) :: text
  character(len=12) :: short
  integer :: own
  common /kept/ own
  !$omp threadprivate(/kept/)

  threads = omp_get_max_threads()
  begin = omp_get_wtime()

  ! Loops, in each schedule.
  total = 0
  !$omp parallel do reduction(+:total) schedule(static)
  do at = 1, many
    total = total + at
    numbers(at) = at
  end do
  call check(total == 500500, 1)
  total = 0
  !$omp parallel do reduction(+:total) schedule(dynamic, 7)
  do at = many, 1, -3
    total = total + numbers(at)
  end do
  call check(total == 167167, 2)
  wide = 0
  !$omp parallel do reduction(max:wide) schedule(guided)
  do at = 1, many
    wide = max(wide, int(numbers(at), 8) * 10000000_8)
  end do
  call check(wide == 10000000000_8, 3)
  call omp_set_schedule(omp_sched_dynamic, 3)
  call omp_get_schedule(schedule, chunk)
  call check(iand(int(schedule), 255) == omp_sched_dynamic .and. chunk == 3, 4)
  total = 0
  !$omp parallel do reduction(+:total) schedule(runtime)
  do at = 1, many
    total = total + 1
  end do
  call check(total == many, 5)

  ! A loop in order.
  total = 0
  !$omp parallel do ordered schedule(dynamic)
  do at = 1, 50
    !$omp ordered
    if (total == at - 1) total = at
    !$omp end ordered
  end do
  call check(total == 50, 6)

  ! Regions: numbers, a value of each thread, and one that all get.
  marks = 0
  own = 41
  copied = 0
  !$omp parallel copyin(/kept/) private(number, copied) num_threads(4)
  number = omp_get_thread_num()
  marks(number) = marks(number) + own + omp_get_num_threads()
  !$omp single
  copied = 17
  !$omp end single copyprivate(copied)
  !$omp critical
  marks(32) = marks(32) + copied
  !$omp end critical
  !$omp barrier
  !$omp sections
  !$omp section
  marks(33) = 1
  !$omp section
  marks(34) = 2
  !$omp end sections
  !$omp atomic
  marks(35) = marks(35) + 1
  !$omp end parallel
  least = marks(35)
  call check(least >= 1 .and. least <= 4, 7)
  do at = 0, least - 1
    call check(marks(at) == 41 + least, 8)
  end do
  call check(marks(32) == 17 * least .and. marks(33) == 1 .and. marks(34) == 2, 9)

  ! Arrays.
  !$omp parallel workshare
  values = real(numbers, 8) / 2
  !$omp end parallel workshare
  call check(abs(sum(values) - 250250d0) < 1d-9, 10)

  ! Tasks: a tree, and a chain.
  !$omp parallel
  !$omp single
  total = tree(12)
  !$omp end single
  !$omp end parallel
  call check(total == 144, 11)
  step = 0
  !$omp parallel shared(step)
  !$omp single
  !$omp task depend(out: step) shared(step)
  step(1) = 1
  !$omp end task
  !$omp task depend(inout: step) shared(step)
  step(2) = step(1) + 1
  !$omp end task
  !$omp task depend(in: step) shared(step)
  step(3) = step(2) + 1
  !$omp end task
  !$omp taskwait
  !$omp end single
  !$omp end parallel
  call check(all(step(1:3) == [1, 2, 3]), 12)

  ! Locks.
  call omp_init_lock(lock)
  call omp_init_nest_lock(nested)
  total = 0
  !$omp parallel do
  do at = 1, 200
    call omp_set_lock(lock)
    total = total + 1
    call omp_unset_lock(lock)
  end do
  call check(total == 200 .and. omp_test_lock(lock), 13)
  call omp_unset_lock(lock)
  call check(omp_test_nest_lock(nested) == 1 .and. omp_test_nest_lock(nested) == 2, 14)
  call omp_unset_nest_lock(nested)
  call omp_unset_nest_lock(nested)
  call omp_destroy_lock(lock)
  call omp_destroy_nest_lock(nested)

  ! Settings.
  call omp_set_num_threads(3)
  call check(omp_get_max_threads() == 3, 15)
  call omp_set_dynamic(.true.)
  call check(omp_get_dynamic(), 16)
  call omp_set_dynamic(.false.)
  call check(.not. omp_get_dynamic() .and. .not. omp_in_parallel(), 17)
  call omp_set_max_active_levels(2)
  call check(omp_get_max_active_levels() == 2 .and. omp_get_level() == 0, 18)
  call check(omp_get_ancestor_thread_num(0) == 0 .and. omp_get_team_size(0) == 1, 19)
  call check(omp_get_num_procs() >= 1 .and. omp_get_thread_limit() >= 1 .and. omp_get_wtick() > 0d0, 20)
  call check(omp_get_wtime() >= begin .and. omp_get_num_devices() == 0 .and. omp_is_initial_device(), 21)

  ! Texts have lengths, and blanks up to them.
  call omp_set_affinity_format('%n of a team   ')
  text = repeat('x', 40)
  call check(omp_get_affinity_format(text) == 15 .and. text == '%n of a team', 22)
  text = repeat('x', 40)
  call check(omp_capture_affinity(text, 'thread %n') == 8 .and. text == 'thread 0', 23)
  short = repeat('x', 12)
  call check(omp_capture_affinity(short, 'a thread with the number %n') == 26 .and. short == 'a thread wit', 24)
  print '(a)', 'ok'

contains

  recursive integer function tree(n) result(leaves)
    integer, intent(in) :: n
    integer :: left, right
    if (n < 2) then
      leaves = n
      return
    end if
    !$omp task shared(left)
    left = tree(n - 1)
    !$omp end task
    !$omp task shared(right)
    right = tree(n - 2)
    !$omp end task
    !$omp taskwait
    leaves = left + right
  end function tree

  subroutine check(holds, fact)
    logical, intent(in) :: holds
    integer, intent(in) :: fact
    if (.not. holds) then
      print '(a, i0, a)', 'fact ', fact, ' does not hold'
      error stop 1
    end if
  end subroutine check
end program fortran
