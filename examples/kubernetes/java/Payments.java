import java.net.InetAddress;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Sends a payment a second to a Kafka topic, and prints the payments of all pods.
 *
 * It reads KAFKA_BOOTSTRAP_SERVERS, which the chart points at the sidecar, and TOPIC. SIGTERM flushes and ends it: the
 * sidecar runs until then.
 */
public final class Payments {
    private static final String SERVERS = System.getenv("KAFKA_BOOTSTRAP_SERVERS");
    private static final String TOPIC = System.getenv().getOrDefault("TOPIC", "payments");

    private final CountDownLatch stopping = new CountDownLatch(1);
    private final String pod;

    private Payments(String pod) {
        this.pod = pod;
    }

    public static void main(String[] arguments) throws Exception {
        var payments = new Payments(InetAddress.getLocalHost().getHostName());
        var producer = new Thread(payments::produce);
        var consumer = new Thread(payments::consume);
        producer.start();
        consumer.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            payments.stopping.countDown();
            join(producer);
            join(consumer);
        }));
    }

    private void produce() {
        Map<String, Object> config =
            Map.of("bootstrap.servers", SERVERS, "client.id", "payments", "acks", "all");
        long number = 0;
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            while (!stopping.await(1, TimeUnit.SECONDS)) {
                number++;
                producer.send(new ProducerRecord<>(TOPIC, pod, "payment " + number + " of " + pod));
            }
            producer.flush();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        System.out.println("flushed " + number + " payments");
    }

    private void consume() {
        Map<String, Object> config = Map.of(
            "bootstrap.servers", SERVERS,
            "client.id", "payments",
            "group.id", pod,
            "auto.offset.reset", "latest");
        try (var consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(TOPIC));
            while (stopping.getCount() > 0) {
                consumer.poll(Duration.ofMillis(500)).forEach(record -> System.out.println(record.value()));
            }
        }
    }

    private static void join(Thread thread) {
        try {
            thread.join();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }
}
