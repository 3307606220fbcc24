package vicus;

import java.nio.file.Path;
import org.eclipse.rdf4j.query.BooleanQuery;
import org.eclipse.rdf4j.query.Query;
import org.eclipse.rdf4j.query.QueryInterruptedException;
import org.eclipse.rdf4j.query.TupleQuery;
import org.eclipse.rdf4j.query.TupleQueryResult;
import org.eclipse.rdf4j.repository.RepositoryConnection;
import org.eclipse.rdf4j.repository.sail.SailRepository;
import org.eclipse.rdf4j.rio.RDFFormat;
import org.eclipse.rdf4j.sail.memory.MemoryStore;

/** RDF4J's MemoryStore, which keeps everything in memory and is not told to persist it. */
final class Rdf4j implements Engine {
    private final RepositoryConnection connection;

    Rdf4j(Path file) throws Exception {
        connection = new SailRepository(new MemoryStore()).getConnection();
        connection.begin();
        connection.add(file.toFile(), RDFFormat.NTRIPLES);
        connection.commit();
    }

    @Override
    public long triples() {
        return connection.size();
    }

    @Override
    public long rows(String text, long limitMillis) {
        Query query = connection.prepareQuery(text);
        // It counts whole seconds.
        query.setMaxExecutionTime((int) Math.max(1, (limitMillis + 999) / 1000));
        if (query instanceof BooleanQuery ask) {
            return ask.evaluate() ? 1 : 0;
        }
        long rows = 0;
        try (TupleQueryResult result = ((TupleQuery) query).evaluate()) {
            for (; result.hasNext(); rows++) {
                result.next();
            }
        }
        return rows;
    }

    @Override
    public boolean isCut(Throwable error) {
        return error instanceof QueryInterruptedException;
    }
}
