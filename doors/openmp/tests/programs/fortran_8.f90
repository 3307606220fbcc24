! The same functions, called with integers of 8 bytes.
program fortran_8
  use omp_lib
  implicit none
  integer(8) :: number, level, kinds
  integer(8), allocatable :: processors(:)
  integer :: chunk
  integer(kind=omp_sched_kind) :: schedule
  level = 0
  number = 2
  call omp_set_num_threads(number)
  call check(omp_get_max_threads() == 2, 1)
  call omp_set_dynamic(.false._8)
  number = 5
  call omp_set_max_active_levels(number)
  call check(omp_get_max_active_levels() == 5, 2)
  call check(omp_get_ancestor_thread_num(level) == 0 .and. omp_get_team_size(level) == 1, 3)
  number = 9
  call omp_set_schedule(omp_sched_guided, number)
  call omp_get_schedule(schedule, kinds)
  call check(iand(int(schedule), 255) == omp_sched_guided .and. kinds == 9, 4)
  call omp_get_schedule(schedule, chunk)
  call check(chunk == 9, 5)
  number = 0
  call check(omp_get_num_places() == 1 .and. omp_get_place_num_procs(number) == 1, 6)
  allocate(processors(2))
  processors = -1
  call omp_get_place_proc_ids(number, processors)
  call check(processors(1) >= 0 .and. processors(2) == -1, 7)
  processors = -1
  call omp_get_partition_place_nums(processors)
  call check(processors(1) == 0 .and. processors(2) == -1, 8)
  print '(a)', 'ok'

contains

  subroutine check(holds, fact)
    logical, intent(in) :: holds
    integer, intent(in) :: fact
    if (.not. holds) then
      print '(a, i0, a)', 'fact ', fact, ' does not hold'
      error stop 1
    end if
  end subroutine check
end program fortran_8
