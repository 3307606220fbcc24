! Each call of `omp_lib`, with integers of 4 and of 8 bytes, by value and by address: it prints what they answer, and a run with the
! compiler's own library prints the same. Left out are omp_display_env, whose text is each library's own, and locks with hints,
! which gcc 12 declares and its library lacks.
program fortran_library
  use omp_lib
  use, intrinsic :: iso_c_binding
  implicit none
  integer(4) :: narrow, ids(64), level
  integer(8) :: wide, wide_ids(64), wide_level
  logical(4) :: truth
  logical(8) :: wide_truth
  integer(omp_sched_kind) :: kind_of
  integer(omp_lock_kind) :: lock
  integer(omp_nest_lock_kind) :: nested
  integer(omp_allocator_handle_kind) :: allocator
  integer(omp_event_handle_kind) :: event
  type(omp_alloctrait) :: traits(2)
  character(len=32) :: text
  character(len=5) :: short
  type(c_ptr) :: block, other
  integer(8), pointer :: numbers(:)
  integer :: at, done
  integer(c_size_t) :: volume(2), to_offsets(2), from_offsets(2), shape_of(2)
  integer(8), target :: from_square(4, 4), to_square(4, 4)

  ! Settings.
  do at = 1, 3
    narrow = at
    call omp_set_num_threads(narrow)
    print *, omp_get_max_threads()
    wide = at + 4
    call omp_set_num_threads(wide)
    print *, omp_get_max_threads()
  end do
  truth = .true.
  call omp_set_dynamic(truth)
  print *, omp_get_dynamic()
  wide_truth = .false.
  call omp_set_dynamic(wide_truth)
  print *, omp_get_dynamic()
  call omp_set_nested(truth)
  print *, omp_get_nested(), omp_get_max_active_levels() > 1
  call omp_set_nested(wide_truth)
  print *, omp_get_nested(), omp_get_max_active_levels()
  narrow = 3
  call omp_set_max_active_levels(narrow)
  print *, omp_get_max_active_levels()
  wide = 4
  call omp_set_max_active_levels(wide)
  print *, omp_get_max_active_levels(), omp_get_supported_active_levels() > 4
  narrow = 6
  call omp_set_schedule(omp_sched_dynamic, narrow)
  call omp_get_schedule(kind_of, narrow)
  print *, kind_of, narrow
  wide = 8
  call omp_set_schedule(omp_sched_static, wide)
  call omp_get_schedule(kind_of, wide)
  print *, kind_of, wide
  call omp_set_schedule(omp_sched_auto, wide)
  call omp_get_schedule(kind_of, wide)
  print *, kind_of
  narrow = 2
  call omp_set_num_teams(narrow)
  print *, omp_get_max_teams()
  wide = 3
  call omp_set_num_teams(wide)
  print *, omp_get_max_teams()
  narrow = 5
  call omp_set_teams_thread_limit(narrow)
  print *, omp_get_teams_thread_limit()
  wide = 6
  call omp_set_teams_thread_limit(wide)
  print *, omp_get_teams_thread_limit()
  narrow = omp_get_initial_device()
  call omp_set_default_device(narrow)
  wide = omp_get_initial_device()
  call omp_set_default_device(wide)
  print *, omp_get_default_device(), omp_get_num_devices(), omp_get_initial_device(), omp_get_device_num()
  print *, omp_is_initial_device(), omp_get_num_teams(), omp_get_team_num(), omp_get_thread_limit() > 0
  print *, omp_get_max_task_priority(), omp_get_cancellation(), omp_get_proc_bind(), omp_in_final()
  print *, omp_get_wtime() > 0d0, omp_get_wtick() > 0d0, omp_get_num_procs() > 0, omp_in_parallel()

  ! Regions.
  call omp_set_max_active_levels(2)
  call omp_set_num_threads(2)
  done = 0
  !$omp parallel num_threads(2) reduction(+: done) private(level, wide_level)
  !$omp parallel num_threads(2) reduction(+: done) private(level, wide_level)
  level = 1
  wide_level = 1
  if (omp_get_ancestor_thread_num(level) == omp_get_ancestor_thread_num(wide_level)) done = done + 1
  if (omp_get_team_size(level) == 2 .and. omp_get_team_size(wide_level) == 2) done = done + 10
  if (omp_get_level() == 2 .and. omp_get_active_level() == 2 .and. omp_in_parallel()) done = done + 100
  if (omp_get_num_threads() == 2 .and. omp_get_thread_num() < 2) done = done + 1000
  if (omp_get_ancestor_thread_num(3) == -1 .and. omp_get_team_size(-1_8) == -1) done = done + 10000
  !$omp end parallel
  !$omp end parallel
  print *, done
  call omp_set_max_active_levels(1)

  ! Locks.
  call omp_init_lock(lock)
  call omp_set_lock(lock)
  call omp_unset_lock(lock)
  print *, omp_test_lock(lock), omp_test_lock(lock)
  call omp_unset_lock(lock)
  call omp_destroy_lock(lock)
  call omp_init_nest_lock(nested)
  call omp_set_nest_lock(nested)
  print *, omp_test_nest_lock(nested), omp_test_nest_lock(nested)
  call omp_unset_nest_lock(nested)
  call omp_unset_nest_lock(nested)
  call omp_unset_nest_lock(nested)
  call omp_destroy_nest_lock(nested)

  ! Places.
  print *, omp_get_num_places() > 0, omp_get_place_num() >= 0, omp_get_partition_num_places() > 0
  ids = -7
  wide_ids = -7
  call omp_get_place_proc_ids(0, ids)
  call omp_get_place_proc_ids(0_8, wide_ids)
  print *, omp_get_place_num_procs(0) == omp_get_place_num_procs(0_8), all(int(ids, 8) == wide_ids), count(ids /= -7) > 0
  ids = -7
  wide_ids = -7
  call omp_get_partition_place_nums(ids)
  call omp_get_partition_place_nums(wide_ids)
  print *, all(int(ids, 8) == wide_ids), ids(1)

  ! Texts.
  call omp_set_affinity_format('level %L of %n')
  text = 'x'
  print *, omp_get_affinity_format(text), '[', text, ']'
  print *, omp_get_affinity_format(short), '[', short, ']'
  print *, omp_capture_affinity(text, '%0.4{thread_num}!'), '[', text, ']'
  print *, omp_capture_affinity(short, 'thread %n of %N'), '[', short, ']'

  ! Memory.
  print *, omp_get_default_allocator()
  call omp_set_default_allocator(omp_default_mem_alloc)
  print *, omp_get_default_allocator()
  traits(1)%key = omp_atk_alignment
  traits(1)%value = 64
  traits(2)%key = omp_atk_pool_size
  traits(2)%value = 8192
  narrow = 2
  allocator = omp_init_allocator(omp_default_mem_space, narrow, traits)
  print *, allocator /= omp_null_allocator
  block = omp_alloc(1024_c_size_t, allocator)
  print *, c_associated(block), mod(transfer(block, 0_8), 64_8)
  call c_f_pointer(block, numbers, [128])
  numbers = 3
  other = omp_realloc(block, 2048_c_size_t, allocator, allocator)
  call c_f_pointer(other, numbers, [256])
  print *, sum(numbers(1:128))
  call omp_free(other, allocator)
  call omp_destroy_allocator(allocator)
  wide = 1
  allocator = omp_init_allocator(omp_default_mem_space, wide, traits)
  block = omp_aligned_alloc(256_c_size_t, 512_c_size_t, allocator)
  print *, mod(transfer(block, 0_8), 256_8)
  call omp_free(block, omp_null_allocator)
  block = omp_calloc(16_c_size_t, 8_c_size_t, allocator)
  call c_f_pointer(block, numbers, [16])
  print *, sum(numbers), mod(transfer(block, 0_8), 64_8)
  call omp_free(block, allocator)
  block = omp_aligned_calloc(128_c_size_t, 16_c_size_t, 8_c_size_t, allocator)
  call c_f_pointer(block, numbers, [16])
  print *, sum(numbers), mod(transfer(block, 0_8), 128_8)
  call omp_free(block, allocator)
  call omp_destroy_allocator(allocator)

  ! Memory of devices, of which there is the host alone.
  narrow = omp_get_initial_device()
  block = omp_target_alloc(64_c_size_t, narrow)
  other = omp_target_alloc(64_c_size_t, narrow)
  call c_f_pointer(block, numbers, [8])
  numbers = [(int(at, 8), at = 1, 8)]
  print *, omp_target_memcpy(other, block, 32_c_size_t, 8_c_size_t, 16_c_size_t, narrow, narrow)
  call c_f_pointer(other, numbers, [8])
  print *, numbers(2:5)
  print *, omp_target_is_present(block, narrow) /= 0
  call omp_target_free(block, narrow)
  call omp_target_free(other, narrow)

  from_square = reshape([(int(at, 8), at = 1, 16)], [4, 4])
  to_square = 0
  volume = 2
  to_offsets = 1
  from_offsets = [0, 1]
  shape_of = 4
  print *, omp_target_memcpy_rect(c_loc(to_square), c_loc(from_square), 8_c_size_t, 2_c_int, volume, to_offsets, &
    from_offsets, shape_of, shape_of, narrow, narrow)
  print *, to_square
  print *, omp_target_memcpy_rect(c_null_ptr, c_null_ptr, 8_c_size_t, 2_c_int, volume, to_offsets, from_offsets, shape_of, &
    shape_of, narrow, narrow) > 2
  print *, omp_target_associate_ptr(c_loc(from_square), c_loc(to_square), 64_c_size_t, 0_c_size_t, narrow) /= 0
  print *, omp_target_disassociate_ptr(c_loc(from_square), narrow) /= 0

  ! The second one has the format of the call before it.
  call omp_display_affinity('%L of level, %n of %N')
  call omp_set_affinity_format('%n and %L')
  call omp_display_affinity('')

  ! Events: fulfilled by the task itself, by a sibling, and by one that has a copy of the handle.
  done = 0
  !$omp parallel master
  !$omp task detach(event) shared(done)
  !$omp atomic
  done = done + 1
  call omp_fulfill_event(event)
  !$omp end task
  !$omp taskwait
  !$omp task detach(event) shared(done)
  !$omp atomic
  done = done + 10
  !$omp end task
  !$omp task firstprivate(event) shared(done)
  !$omp atomic
  done = done + 100
  call omp_fulfill_event(event)
  !$omp end task
  !$omp taskwait
  done = done * 2
  !$omp task detach(event) depend(out: done) shared(done)
  !$omp atomic
  done = done + 1000
  !$omp end task
  !$omp task depend(in: done) shared(done)
  !$omp atomic
  done = done + 10000
  !$omp end task
  !$omp task firstprivate(event)
  call omp_fulfill_event(event)
  !$omp end task
  !$omp end parallel master
  print *, done

  print *, omp_pause_resource(omp_pause_soft, omp_get_initial_device()), omp_pause_resource_all(omp_pause_hard)
  done = 0
  !$omp parallel num_threads(3) reduction(+: done)
  done = 1
  if (omp_pause_resource_all(omp_pause_soft) == 0) done = 100
  !$omp end parallel
  print *, done
end program fortran_library
