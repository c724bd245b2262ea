import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.ArrayList;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;

/** A smoke test of Kafka Streams, exactly once: make topics, write, count by key, read the counts, and fail where it must. */
public class Smoke {
    static final int RECORDS = 300;

    public static void main(String[] args) throws Exception {
        String bootstrap = args[0], topic = args[1], counts = topic + "-counts", group = "g-" + topic;
        Properties common = new Properties();
        common.put("bootstrap.servers", bootstrap);
        common.put("client.id", "smoke");
        try (Admin admin = Admin.create(common)) {
            admin.createTopics(List.of(new NewTopic(topic, 3, (short) 1), new NewTopic(counts, 3, (short) 1))).all().get();
            int acked = produce(common, topic);
            Properties streaming = new Properties();
            streaming.putAll(common);
            streaming.put(StreamsConfig.APPLICATION_ID_CONFIG, group);
            streaming.put(StreamsConfig.STATE_DIR_CONFIG, args[2]);
            streaming.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
            streaming.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
            streaming.put("group.protocol", args[3]);
            streaming.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
            streaming.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.String().getClass());
            StreamsBuilder builder = new StreamsBuilder();
            builder.<String, String>stream(topic).groupByKey().count().toStream().mapValues(String::valueOf).to(counts);
            Map<String, Integer> seen;
            try (KafkaStreams streams = new KafkaStreams(builder.build(), streaming)) {
                streams.start();
                seen = consume(common, counts);
            }
            int partitions = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
            long committed = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().entrySet().stream()
                .filter(each -> each.getKey().topic().equals(topic)).mapToLong(each -> each.getValue().offset()).sum();
            String missing = "none";
            try {
                admin.deleteTopics(List.of(topic + "-missing")).all().get();
            } catch (ExecutionException error) {
                missing = Errors.forException(error.getCause()).name();
            }
            int consumed = seen.values().stream().mapToInt(Integer::intValue).sum();
            System.out.printf("{\"partitions\": %d, \"acked\": %d, \"consumed\": %d, \"distinct\": %d, \"committed\": %d, \"missing\": \"%s\"}%n",
                partitions, acked, consumed, seen.size(), committed, missing);
        }
    }

    static int produce(Properties common, String topic) throws Exception {
        Properties properties = new Properties();
        properties.putAll(common);
        int acked = 0;
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            List<Future<?>> sent = new ArrayList<>();
            for (int number = 0; number < RECORDS; number++) {
                sent.add(producer.send(new ProducerRecord<>(topic, String.valueOf(number), "x".repeat(1000))));
            }
            for (Future<?> each : sent) {
                each.get();
                acked++;
            }
        }
        return acked;
    }

    /** Returns the last count of each key, when every record has been counted or a minute is over. */
    static Map<String, Integer> consume(Properties common, String counts) {
        Properties properties = new Properties();
        properties.putAll(common);
        properties.put("group.id", "r-" + counts);
        properties.put("auto.offset.reset", "earliest");
        properties.put("isolation.level", "read_committed");
        Map<String, Integer> seen = new HashMap<>();
        long end = System.currentTimeMillis() + 60_000;
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(counts));
            while (System.currentTimeMillis() < end && seen.values().stream().mapToInt(Integer::intValue).sum() < RECORDS) {
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(200))) {
                    seen.put(each.key(), Integer.valueOf(each.value()));
                }
            }
        }
        return seen;
    }
}
