//! Variables of the environment: wrong ones, and other libraries' own.

use super::{compile, for_c, library};
use std::process::{Command, Stdio};

/// Scripts for clusters set libomp's variable. It was not read, and ended the default binding on several nodes.
#[test]
fn a_binding_by_libomp_s_variable_is_obeyed() {
    let Some(compiler) = for_c().first() else { return };
    let program = compile(compiler, "settings.c").expect("it can be compiled");
    let shown = |variables: &[(&str, &str)]| {
        let mut command = Command::new(&program);
        command.env("LD_PRELOAD", library()).env("OMP_DISPLAY_ENV", "true").envs(variables.iter().copied());
        let output = command.output().expect("the program was compiled");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    // gcc's own library shows its settings as well, and does not know the variable.
    let binds = |text: &str, to: &str| text.lines().any(|line| line.contains("OMP_PROC_BIND") && line.contains(to));
    for (value, binding) in [
        ("verbose,granularity=fine,compact,1,0", "CLOSE"),
        ("scatter", "SPREAD"),
        ("Balanced", "SPREAD"),
        ("none", "FALSE"),
        ("disabled", "FALSE"),
    ] {
        let text = shown(&[("KMP_AFFINITY", value)]);
        assert!(binds(&text, binding) && !text.contains("left out"), "{value}: {text}");
        let text = shown(&[("KMP_AFFINITY", value), ("OMP_PROC_BIND", "primary")]);
        assert!(binds(&text, "PRIMARY") && !binds(&text, binding), "{value}: {text}");
    }
    let text = shown(&[("KMP_AFFINITY", "explicit,proclist=[0]")]);
    assert!(text.contains("libvicus_omp: KMP_AFFINITY=explicit,proclist=[0] is left out: "), "{text}");
}

#[test]
fn settings_that_others_make_idle_are_told_of() {
    let Some(compiler) = for_c().first() else { return };
    let program = compile(compiler, "settings.c").expect("it can be compiled");
    let file = std::env::temp_dir().join(format!("vicus-intense-{}", std::process::id()));
    std::fs::write(&file, "main._omp_fn.0\n").expect("a file in the folder for these");
    let file = file.to_str().expect("a name of letters");
    // Of the variables in a case, the last one does nothing.
    let cases: [&[(&str, &str)]; 11] = [
        &[("VICUS_NEXT_TOUCH", "1")],
        &[("VICUS_DATA_DISTRIBUTION", "fine"), ("OMP_DATA_DISTRIBUTION", "coarse")],
        &[("VICUS_DATA_DISTRIBUTION_FROM", "65536")],
        &[("VICUS_SUMMARY_ALONE_MS", "10")],
        &[("OMP_PROC_BIND", "false"), ("OMP_PLACES", "cores")],
        &[("VICUS_STRATEGY", "footprint"), ("VICUS_INTENSE", file)],
        &[("OMP_PROC_BIND", "close"), ("KMP_AFFINITY", "scatter")],
        &[("GOMP_CPU_AFFINITY", "0"), ("KMP_AFFINITY", "none")],
        &[("OMP_PLACES", "cores"), ("GOMP_CPU_AFFINITY", "0")],
        &[("OMP_PROC_BIND", "false"), ("GOMP_CPU_AFFINITY", "0")],
        &[("VICUS_STRATEGIE", "nls")],
    ];
    let told = |variables: &[(&str, &str)]| {
        let mut command = Command::new(&program);
        command.env("LD_PRELOAD", library()).envs(variables.iter().copied());
        let output = command.output().expect("the program was compiled");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for case in cases {
        let (name, _) = case.last().expect("a case has variables");
        let text = told(case);
        let lines = text.lines().filter(|line| line.starts_with("libvicus_omp: ") && line.contains("does nothing"));
        let of_name = format!("libvicus_omp: {name} does nothing");
        assert_eq!(lines.filter(|line| line.starts_with(&of_name)).count(), 1, "{case:?}: {text}");
    }
    for (name, near) in [
        ("VICUS_STRATEGIE", "VICUS_STRATEGY"),
        ("VICUS_STARTEGY", "VICUS_STRATEGY"),
        ("VICUS_DATA_DISTRIBUTON", "VICUS_DATA_DISTRIBUTION"),
        ("VICUS_NEXTTOUCH", "VICUS_NEXT_TOUCH"),
        ("VICUS_SUMARY", "VICUS_SUMMARY"),
    ] {
        let text = told(&[(name, "1")]);
        let line = format!("libvicus_omp: {name} does nothing; did you mean {near}");
        assert_eq!(text.lines().filter(|said| said.starts_with(&line)).count(), 1, "{text}");
    }
    let summary = format!("{file}.summary");
    let used: [&[(&str, &str)]; 8] = [
        &[("VICUS_DATA_DISTRIBUTION", "fine"), ("VICUS_DATA_DISTRIBUTION_FROM", "65536")],
        &[("VICUS_SUMMARY", &summary), ("VICUS_SUMMARY_ALONE_MS", "10")],
        &[("OMP_PROC_BIND", "close"), ("OMP_PLACES", "cores")],
        &[("OMP_DATA_DISTRIBUTION", "coarse")],
        &[("OMP_PROC_BIND", "close"), ("GOMP_CPU_AFFINITY", "0")],
        // The first one is wrong, and left out.
        &[("OMP_PROC_BIND", "glue"), ("KMP_AFFINITY", "scatter")],
        // Not libvicus_omp's, and near no name.
        &[("VICUS_ROOT", "/opt/vicus")],
        &[("VICUS_TOKEN", "secret")],
    ];
    for case in used {
        let text = told(case);
        assert!(!text.contains("does nothing"), "{case:?}: {text}");
    }
    for file in [file, &summary] {
        std::fs::remove_file(file).expect("it was written");
    }
}

#[test]
fn wrong_settings_are_told_of_and_left_out() {
    let Some(compiler) = for_c().first() else { return };
    let program = compile(compiler, "settings.c").expect("it can be compiled");
    let wrong = [
        ("OMP_NUM_THREADS", "many"),
        ("OMP_SCHEDULE", "sometimes"),
        ("OMP_STACKSIZE", "12Q"),
        ("OMP_DYNAMIC", "perhaps"),
        ("OMP_PROC_BIND", "glue"),
        ("OMP_WAIT_POLICY", "lazy"),
        ("OMP_TOOL", "perhaps"),
        ("VICUS_STRATEGY", "none"),
        ("VICUS_SUMMARY_ALONE_MS", "-1"),
        ("VICUS_DATA_DISTRIBUTION", "everywhere"),
        ("VICUS_DATA_DISTRIBUTION_FROM", "1"),
        ("VICUS_CHECK", "perhaps"),
        ("VICUS_NEXT_TOUCH", "perhaps"),
        ("VICUS_TRACE_EVENTS", "0"),
        ("VICUS_TRACE_ROLLING", "perhaps"),
        ("VICUS_TRACE_LAST_MS", "-1"),
        ("OMP_PLACES", "{0"),
        ("OMP_TARGET_OFFLOAD", "never"),
        ("KMP_DISP_NUM_BUFFERS", "0"),
        ("KMP_BLOCKTIME", "long"),
        ("KMP_STACKSIZE", "deep"),
    ];
    let mut command = Command::new(&program);
    let output = command.env("LD_PRELOAD", library()).envs(wrong).output().expect("the program was compiled");
    assert!(output.status.success());
    // gcc's own library is loaded as well, and prints its own messages about them.
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("libvicus_omp: ")).collect();
    assert_eq!(lines.len(), wrong.len(), "{said}");
    for (name, value) in wrong {
        let value = if name.starts_with("VICUS_") { "" } else { &format!("={value}") };
        let begin = format!("libvicus_omp: {name}{value} is left out: ");
        assert!(lines.iter().any(|line| line.starts_with(&begin)), "{begin}: {said}");
    }
    // What happened: each program of a pipeline said so, as all inherit the variables and the library.
    let mut command = Command::new("cat");
    let output =
        command.stdin(Stdio::null()).env("LD_PRELOAD", library()).envs(wrong).output().expect("there is a cat");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let mut command = Command::new("cat");
    command.stdin(Stdio::null()).env("LD_PRELOAD", library()).envs(wrong).env("VICUS_TRACE", "/no/such.trace");
    let output = command.env("VICUS_DATA_DISTRIBUTION", "fine").output().expect("there is a cat");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    // A list of bindings is one of levels; a stack too small for a thread is left out.
    for (name, value, levels, lines) in [
        ("OMP_PROC_BIND", "spread,close", true, 0),
        ("OMP_PROC_BIND", "spread", false, 0),
        ("OMP_NUM_THREADS", "2,2", true, 0),
        ("OMP_STACKSIZE", "0", false, 1),
        ("OMP_STACKSIZE", "1B", false, 1),
        ("OMP_STACKSIZE", "15K", false, 1),
        ("OMP_STACKSIZE", "16K", false, 0),
        ("GOMP_STACKSIZE", "0", false, 1),
        ("KMP_STACKSIZE", "4096", false, 1),
    ] {
        let mut command = Command::new(&program);
        command.env("LD_PRELOAD", library()).env(name, value).env("OMP_DISPLAY_ENV", "true");
        let output = command.output().expect("the program was compiled");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}={value}: {output:?}");
        let own = said.lines().filter(|line| line.starts_with("libvicus_omp: ")).count();
        let nested = if levels { "OMP_NESTED = 'TRUE'" } else { "OMP_NESTED = 'FALSE'" };
        assert!(own == lines && said.contains(nested), "{name}={value}: {said}");
    }
    let mut command = Command::new(&program);
    let output = command.env("LD_PRELOAD", library()).env("VICUS_LEARNED", "/no/such.json").output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("libvicus_omp: VICUS_LEARNED is left out: /no/such.json: can't be read"), "{said}");
}
