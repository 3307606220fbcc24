package vicus;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.apache.jena.query.QueryCancelledException;
import org.apache.jena.query.ReadWrite;
import org.apache.jena.sparql.core.DatasetGraph;
import org.apache.jena.sparql.exec.UpdateExec;
import org.apache.jena.sys.JenaSystem;
import org.apache.jena.tdb2.DatabaseMgr;
import org.apache.jena.tdb2.loader.DataLoader;
import org.apache.jena.tdb2.loader.LoaderFactory;

/**
 * Jena's TDB2 in a folder, behind standard input and output: {@code java ... vicus.StorePeer FOLDER}. The lines are those of
 * {@code bench/src/store/engine.rs}. A commit of TDB2 syncs its journal.
 */
final class StorePeer {
    static {
        JenaSystem.init();
    }

    private final Path folder;
    private DatasetGraph dataset;

    private StorePeer(Path folder) {
        this.folder = folder;
    }

    public static void main(String[] args) throws Exception {
        StorePeer peer = new StorePeer(Path.of(args[0]));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(peer.answer(line.split("\t")));
        }
        System.exit(0);
    }

    private String answer(String[] words) {
        try {
            long began = System.nanoTime();
            long count = switch (words[0]) {
                case "load" -> load(words[1]);
                case "open" -> open(Files.readString(Path.of(words[1])));
                case "query" -> rows(Files.readString(Path.of(words[2])), Long.parseLong(words[1]));
                case "update" -> update(Files.readAllLines(Path.of(words[4])), Integer.parseInt(words[1]),
                    Integer.parseInt(words[2]), Long.parseLong(words[3]));
                default -> throw new IllegalArgumentException(words[0] + " is no command");
            };
            return count + "\t" + (System.nanoTime() - began);
        } catch (QueryCancelledException cancelled) {
            return "cut";
        } catch (Exception | OutOfMemoryError | StackOverflowError error) {
            return "error\t" + error.toString().replaceAll("\\s+", " ");
        }
    }

    private long load(String file) throws IOException {
        dataset = DatabaseMgr.connectDatasetGraph(folder.toString());
        DataLoader loader = LoaderFactory.parallelLoader(dataset, (format, arguments) -> {});
        loader.startBulk();
        loader.load(file);
        loader.finishBulk();
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path path : files.filter(Files::isRegularFile).toList()) {
                try (FileChannel channel = FileChannel.open(path, StandardOpenOption.WRITE)) {
                    channel.force(true);
                }
            }
        }
        return loader.countTriples();
    }

    private long open(String query) {
        dataset = DatabaseMgr.connectDatasetGraph(folder.toString());
        return rows(query, Long.MAX_VALUE);
    }

    private long rows(String text, long limitMillis) {
        dataset.begin(ReadWrite.READ);
        try {
            return Jena.rows(dataset, text, limitMillis);
        } finally {
            dataset.end();
        }
    }

    private long update(List<String> lines, int threads, int batch, long limitMillis) throws Exception {
        long until = System.nanoTime() + limitMillis * 1_000_000;
        AtomicInteger next = new AtomicInteger();
        AtomicInteger done = new AtomicInteger();
        Throwable[] failed = new Throwable[1];
        Thread[] running = new Thread[threads];
        for (int place = 0; place < threads; place++) {
            running[place] = new Thread(() -> {
                while (System.nanoTime() < until) {
                    int first = next.getAndAdd(batch);
                    if (first >= lines.size()) {
                        return;
                    }
                    List<String> some = lines.subList(first, Math.min(first + batch, lines.size()));
                    dataset.begin(ReadWrite.WRITE);
                    try {
                        UpdateExec.dataset(dataset).update(String.join(" ;\n", some)).execute();
                        dataset.commit();
                        done.addAndGet(some.size());
                    } catch (RuntimeException | Error error) {
                        failed[0] = error;
                        return;
                    } finally {
                        dataset.end();
                    }
                }
            });
            running[place].start();
        }
        for (Thread thread : running) {
            thread.join();
        }
        if (failed[0] != null) {
            throw new IllegalStateException(failed[0]);
        }
        return done.get();
    }
}
