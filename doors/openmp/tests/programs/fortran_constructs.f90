! Fortran's own constructs and kinds of variables: common blocks and saved variables of each thread, arrays that are allocated, workshare,
! sections, taskloops, and all of them without an iteration, with one, and with more threads than iterations.
module kept_apart
  implicit none
  integer, save :: mine = 5
  integer, allocatable, save :: own(:)
  !$omp threadprivate(mine, own)
end module kept_apart

program fortran_constructs
  use omp_lib
  use kept_apart
  implicit none
  integer :: counts(7), at, round
  counts = [0, 1, 2, max(0, omp_get_max_threads() - 1), omp_get_max_threads(), omp_get_max_threads() + 1, 37]
  do round = 1, 3
    call apart()
    do at = 1, size(counts)
      call loops(counts(at))
      call arrays(counts(at))
      call tasks(counts(at))
      call others(counts(at))
    end do
  end do
  print '(a)', 'ok'

contains

  subroutine apart()
    integer :: number, wrong
    integer :: first, second(3)
    common /block/ first, second
    !$omp threadprivate(/block/)
    first = 11
    second = [1, 2, 3]
    mine = 7
    wrong = 0
    call omp_set_dynamic(.false.)
    !$omp parallel copyin(/block/, mine) private(number) reduction(+: wrong)
    number = omp_get_thread_num()
    if (first /= 11 .or. any(second /= [1, 2, 3]) .or. mine /= 7) wrong = wrong + 1
    first = number
    second = number * [1, 2, 3]
    mine = -number
    if (allocated(own)) deallocate(own)
    allocate(own(number + 1), source=number)
    !$omp end parallel
    !$omp parallel private(number) reduction(+: wrong)
    number = omp_get_thread_num()
    if (first /= number .or. any(second /= number * [1, 2, 3]) .or. mine /= -number) wrong = wrong + 1
    if (size(own) /= number + 1 .or. any(own /= number)) wrong = wrong + 1
    !$omp end parallel
    call check(wrong == 0, 1)
    !$omp parallel
    !$omp single
    first = 99
    mine = 98
    !$omp end single copyprivate(first, mine)
    if (first /= 99 .or. mine /= 98) call check(.false., 2)
    !$omp end parallel
  end subroutine apart

  subroutine loops(count)
    integer, intent(in) :: count
    integer :: i, j, total, last, most, marks(0:40), order
    integer(8) :: wide, sum_of
    marks = 0
    !$omp parallel do schedule(static)
    do i = 1, count
      marks(i) = marks(i) + 1
    end do
    !$omp parallel do schedule(dynamic, 2)
    do i = count, 1, -1
      marks(i) = marks(i) + 1
    end do
    !$omp parallel do schedule(guided)
    do wide = 1_8, int(count, 8)
      marks(wide) = marks(wide) + 1
    end do
    !$omp parallel do schedule(runtime) if(.false.)
    do i = 1, count
      marks(i) = marks(i) + 1
    end do
    !$omp parallel do simd schedule(static, 3)
    do i = 1, count
      marks(i) = marks(i) + 1
    end do
    call check(all(marks(1:count) == 5) .and. marks(0) == 0 .and. all(marks(count + 1:) == 0), 10)
    total = 0
    most = -1
    !$omp parallel do collapse(2) reduction(+: total) reduction(max: most) schedule(dynamic)
    do i = 1, count
      do j = 1, count, 2
        total = total + 1
        most = max(most, i)
      end do
    end do
    call check(total == count * ((count + 1) / 2) .and. (count == 0 .or. most == count), 11)
    order = 0
    !$omp parallel do ordered schedule(dynamic)
    do i = 1, count
      !$omp ordered
      if (order == i - 1) order = i
      !$omp end ordered
    end do
    call check(order == count, 12)
    last = -1
    !$omp parallel do lastprivate(last) schedule(dynamic)
    do i = 1, count
      last = i
    end do
    call check(count == 0 .or. last == count, 13)
    marks = 0
    !$omp parallel do ordered(1)
    do i = 1, count
      !$omp ordered depend(sink: i - 1)
      marks(i) = marks(i - 1) + 1
      !$omp ordered depend(source)
    end do
    call check(marks(count) == count, 14)
    sum_of = 0
    !$omp parallel do reduction(+: sum_of) schedule(static, 100000000)
    do i = 1, count
      sum_of = sum_of + i
    end do
    call check(sum_of == int(count, 8) * (count + 1) / 2, 15)
  end subroutine loops

  subroutine arrays(count)
    integer, intent(in) :: count
    real(8), allocatable :: one(:), two(:), three(:, :)
    integer, allocatable :: private_one(:)
    integer :: total, i
    allocate(one(count), two(count), three(count, 3))
    !$omp parallel workshare
    one = 2d0
    two = one * 3d0
    where (two > 5d0) one = two - 1d0
    three = 0d0
    three(:, 2) = one
    !$omp end parallel workshare
    call check(all(one == 5d0) .and. all(two == 6d0) .and. sum(three) == 5d0 * count, 20)
    !$omp parallel
    !$omp workshare
    forall (i = 1:count) one(i) = i
    !$omp end workshare
    !$omp workshare
    two = cshift(one, 1)
    !$omp end workshare nowait
    !$omp end parallel
    if (count > 0) call check(two(count) == 1d0, 21)
    allocate(private_one(count), source=4)
    total = 0
    !$omp parallel do firstprivate(private_one) reduction(+: total)
    do i = 1, count
      private_one(i) = private_one(i) + i
      total = total + private_one(i)
    end do
    call check(total == 4 * count + count * (count + 1) / 2 .and. all(private_one == 4), 22)
    !$omp parallel do reduction(+: one)
    do i = 1, count
      one = one + 1d0
    end do
    call check(abs(sum(one) - (count * (count + 1) / 2 + count * count)) < 1d-6, 23)
  end subroutine arrays

  subroutine tasks(count)
    integer, intent(in) :: count
    integer :: total, i, j, chain(0:40)
    total = 0
    !$omp parallel master
    !$omp taskloop reduction(+: total)
    do i = 1, count
      total = total + i
    end do
    !$omp taskloop reduction(+: total) grainsize(3) if(.false.)
    do i = count, 1, -1
      total = total + i
    end do
    !$omp taskloop reduction(+: total) num_tasks(5) collapse(2)
    do i = 1, count
      do j = 1, 2
        total = total + i
      end do
    end do
    !$omp taskloop simd reduction(+: total)
    do i = 1, count
      total = total + i
    end do
    !$omp taskgroup task_reduction(+: total)
    do i = 1, count
      !$omp task in_reduction(+: total)
      total = total + i
      !$omp end task
    end do
    !$omp end taskgroup
    !$omp end parallel master
    call check(total == 3 * count * (count + 1), 30)
    chain = 0
    !$omp parallel
    !$omp single
    do i = 1, count
      !$omp task depend(in: chain(i - 1)) depend(out: chain(i)) firstprivate(i)
      chain(i) = chain(i - 1) + 1
      !$omp end task
    end do
    !$omp end single
    !$omp end parallel
    call check(chain(count) == count, 31)
  end subroutine tasks

  subroutine others(count)
    integer, intent(in) :: count
    integer :: a, b, c, i
    a = 0
    b = 0
    c = 0
    !$omp parallel sections
    !$omp section
    a = count
    !$omp section
    b = count
    !$omp section
    c = count
    !$omp end parallel sections
    call check(a == count .and. b == count .and. c == count, 40)
    !$omp parallel
    !$omp do
    do i = 1, count
      !$omp atomic update
      a = a + 1
      !$omp critical (name)
      b = b + 1
      !$omp end critical (name)
      !$omp atomic capture
      c = c + 1
      a = c
      !$omp end atomic
    end do
    !$omp end do
    !$omp masked
    b = b + 1
    !$omp end masked
    !$omp end parallel
    call check(b == 2 * count + 1 .and. c == 2 * count, 41)
  end subroutine others

  subroutine check(holds, fact)
    logical, intent(in) :: holds
    integer, intent(in) :: fact
    if (.not. holds) then
      print '(a, i0, a)', 'fact ', fact, ' does not hold'
      error stop 1
    end if
  end subroutine check
end program fortran_constructs
