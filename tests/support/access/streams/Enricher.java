import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler;

/** Counts records by value, exactly once, with a repartition and a changelog topic; says "counted" or what has ended it. */
public class Enricher {
    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        config.load(Files.newBufferedReader(Path.of(args[0])));
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        CountDownLatch ended = new CountDownLatch(1);
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(args[1]).groupBy((key, value) -> value).count().toStream()
            .mapValues(String::valueOf).peek((key, value) -> {
                System.out.println("counted");
                ended.countDown();
            }).to(args[2]);
        try (KafkaStreams streams = new KafkaStreams(builder.build(), config)) {
            streams.setUncaughtExceptionHandler(error -> {
                for (Throwable each = error; each != null; each = each.getCause()) {
                    System.out.println("ended by " + each.getClass().getName() + ": " + each.getMessage());
                }
                ended.countDown();
                return StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.start();
            ended.await();
        }
    }
}
