! Who runs the tasks of a team in Fortran: no thread is without one.
program spread
  use iso_c_binding
  use omp_lib
  implicit none
  interface
    function usleep(microseconds) bind(c)
      import c_int
      integer(c_int), value :: microseconds
      integer(c_int) :: usleep
    end function
  end interface
  integer, parameter :: tasks = 200
  integer :: at, ran(0:63), cells(tasks)
  ! The threads are started first: in an emulated machine that takes as long as many tasks.
  !$omp parallel
  !$omp barrier
  !$omp end parallel
  ran = 0
  !$omp parallel
  !$omp single
  do at = 1, tasks
    !$omp task
    call work
    !$omp end task
  end do
  !$omp end single
  !$omp end parallel
  call is_spread('single')
  !$omp parallel
  !$omp single
  !$omp taskloop grainsize(1)
  do at = 1, tasks
    call work
  end do
  !$omp end taskloop
  !$omp end single
  !$omp end parallel
  call is_spread('taskloop')
  !$omp parallel
  !$omp single
  do at = 1, tasks
    !$omp task depend(inout: cells(at))
    call work
    !$omp end task
  end do
  !$omp end single
  !$omp end parallel
  call is_spread('depend')
  print '(a)', 'ok'
contains
  subroutine work
    integer(c_int) :: status
    !$omp atomic
    ran(omp_get_thread_num()) = ran(omp_get_thread_num()) + 1
    status = usleep(2000)
  end subroutine

  subroutine is_spread(construct)
    character(*), intent(in) :: construct
    print '(a, " by thread", 64(1x, i0))', construct, ran(:omp_get_max_threads() - 1)
    if (sum(ran) /= tasks) stop 1
    if (any(ran(:omp_get_max_threads() - 1) == 0)) stop 2
    ran = 0
  end subroutine
end program
