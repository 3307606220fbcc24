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
  character(8), parameter :: names(3) = ['single  ', 'taskloop', 'depend  ']
  integer :: construct, at, ran(0:63), cells(tasks), round
  do construct = 1, 3
    ! In one of three rounds: on a busy host, a processor of an emulated machine may come too late for a round.
    do round = 1, 3
      ran = 0
      if (construct == 1) call loop
      if (construct == 2) call taskloop
      if (construct == 3) call depend
      print '(a, " by thread", 64(1x, i0))', names(construct), ran(:omp_get_max_threads() - 1)
      if (sum(ran) /= tasks) stop 1
      if (all(ran(:omp_get_max_threads() - 1) > 0)) exit
    end do
    if (round > 3) stop 2
  end do
  print '(a)', 'ok'
contains
  subroutine loop
    !$omp parallel
    !$omp single
    do at = 1, tasks
      !$omp task
      call work
      !$omp end task
    end do
    !$omp end single
    !$omp end parallel
  end subroutine

  subroutine taskloop
    !$omp parallel
    !$omp single
    !$omp taskloop grainsize(1)
    do at = 1, tasks
      call work
    end do
    !$omp end taskloop
    !$omp end single
    !$omp end parallel
  end subroutine

  subroutine depend
    !$omp parallel
    !$omp single
    do at = 1, tasks
      !$omp task depend(inout: cells(at))
      call work
      !$omp end task
    end do
    !$omp end single
    !$omp end parallel
  end subroutine

  subroutine work
    integer(c_int) :: status
    !$omp atomic
    ran(omp_get_thread_num()) = ran(omp_get_thread_num()) + 1
    status = usleep(2000)
  end subroutine
end program
