// Kafka's purgatory before the timing wheels, and the benchmark that the design of its successor was measured with.
//
// A port, in our own words, of sources of Apache Kafka (Apache-2.0), which no released test jar has together any more:
// - core/src/main/scala/kafka/server/DelayedOperation.scala and kafka/utils/{DelayedItem,Pool}.scala at commit
//   b8904e9614b (February 2015), the last of the old design. KAFKA-1989 replaced it in April 2015, before 0.9.
// - core/src/test/scala/other/kafka/TestPurgatoryPerformance.scala: the program of KAFKA-2013 with the arguments, the
//   keys and the line of figures that it has in 3.9.
//
// The same as there: an operation is tried, added to the watch list of each key, tried again, and put into a DelayQueue
// by its deadline. Completed operations stay in both. One reaper thread takes one expired operation at a time, or waits
// for 200 ms, and then purges: all watch lists if together they hold an interval (1,000) or more, and the whole queue
// if it does, element by element with its iterator. The size of a watch list is read without its lock. The locks, the
// collections and the threads are the same.
// Left out: metrics, log lines, and checkAndComplete, which the benchmark never calls.
// Different: the last operations get ten seconds, because a reaper that is behind would take minutes; how many are left
// then is printed in a line that begins with #. Loops and closures are Java's and not Scala's.
//
// RequestPurgatory.scala of the releases 0.8.2 is the same design under other names with one difference: its reaper
// passes over operations that are completed and looks for a purge only after one that did expire.

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.DelayQueue;
import java.util.concurrent.Delayed;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

public final class OldPurgatory {
    static final int PURGE_INTERVAL = 1000;
    static final long POLL_MS = 200;
    static final long LAST_MS = 10_000;
    static final int SAMPLES = 1_000_000;

    static class DelayedItem implements Delayed {
        final long dueMs;

        DelayedItem(long dueMs) {
            this.dueMs = dueMs;
        }

        @Override
        public long getDelay(TimeUnit unit) {
            return unit.convert(Math.max(dueMs - System.currentTimeMillis(), 0), TimeUnit.MILLISECONDS);
        }

        @Override
        public int compareTo(Delayed other) {
            return Long.compare(dueMs, ((DelayedItem) other).dueMs);
        }
    }

    static final class FakeOperation extends DelayedItem {
        private final AtomicBoolean completed = new AtomicBoolean();
        private final byte[] data;
        private final CountDownLatch done;
        final long completesMs;

        FakeOperation(long timeoutMs, int size, long latencyMs, CountDownLatch done) {
            super(System.currentTimeMillis() + timeoutMs);
            data = new byte[size];
            completesMs = System.currentTimeMillis() + latencyMs;
            this.done = done;
        }

        boolean isCompleted() {
            return completed.get();
        }

        boolean tryComplete() {
            return System.currentTimeMillis() >= completesMs && forceComplete();
        }

        boolean forceComplete() {
            if (!completed.compareAndSet(false, true)) {
                return false;
            }
            done.countDown();
            return true;
        }
    }

    static final class Scheduled extends DelayedItem {
        final FakeOperation operation;

        Scheduled(FakeOperation operation) {
            super(operation.completesMs);
            this.operation = operation;
        }
    }

    static final class Watchers {
        private final LinkedList<FakeOperation> operations = new LinkedList<>();

        int watched() {
            return operations.size();
        }

        synchronized void watch(FakeOperation operation) {
            operations.add(operation);
        }

        synchronized void purgeCompleted() {
            removeCompleted(operations.iterator());
        }
    }

    static final class Purgatory {
        private final ConcurrentHashMap<Object, Watchers> watchersForKey = new ConcurrentHashMap<>();
        private final Object createLock = new Object();
        private final DelayQueue<FakeOperation> delayed = new DelayQueue<>();
        private volatile boolean running = true;
        private final Thread reaper = new Thread(this::reap, "reaper");

        Purgatory() {
            reaper.setDaemon(true);
            reaper.start();
        }

        boolean tryCompleteElseWatch(FakeOperation operation, List<String> keys) {
            if (tryLocked(operation)) {
                return true;
            }
            for (String key : keys) {
                if (operation.isCompleted()) {
                    return false;
                }
                watchersFor(key).watch(operation);
            }
            if (tryLocked(operation)) {
                return true;
            }
            if (!operation.isCompleted()) {
                delayed.add(operation);
            }
            return false;
        }

        private static boolean tryLocked(FakeOperation operation) {
            synchronized (operation) {
                return operation.tryComplete();
            }
        }

        private Watchers watchersFor(String key) {
            Watchers there = watchersForKey.get(key);
            if (there == null) {
                synchronized (createLock) {
                    there = watchersForKey.computeIfAbsent(key, each -> new Watchers());
                }
            }
            return there;
        }

        private int watched() {
            int sum = 0;
            for (Watchers each : new ArrayList<>(watchersForKey.values())) {
                sum += each.watched();
            }
            return sum;
        }

        private void reap() {
            while (running) {
                try {
                    expireNext();
                } catch (InterruptedException end) {
                    return;
                }
                if (watched() >= PURGE_INTERVAL) {
                    for (Watchers each : new ArrayList<>(watchersForKey.values())) {
                        each.purgeCompleted();
                    }
                }
                if (delayed.size() >= PURGE_INTERVAL) {
                    removeCompleted(delayed.iterator());
                }
            }
        }

        private void expireNext() throws InterruptedException {
            FakeOperation expired = delayed.poll(POLL_MS, TimeUnit.MILLISECONDS);
            if (expired != null) {
                synchronized (expired) {
                    expired.forceComplete();
                }
            }
        }

        void shutdown() {
            running = false;
            reaper.interrupt();
        }
    }

    static void removeCompleted(Iterator<FakeOperation> operations) {
        while (operations.hasNext()) {
            if (operations.next().isCompleted()) {
                operations.remove();
            }
        }
    }

    static int option(String[] given, String name) {
        for (int place = 0; place + 1 < given.length; place += 2) {
            if (given[place].equals(name)) {
                return (int) Double.parseDouble(given[place + 1]);
            }
        }
        throw new IllegalArgumentException("missing " + name);
    }

    public static void main(String[] given) throws InterruptedException {
        int number = option(given, "--num");
        int rate = option(given, "--rate");
        int size = option(given, "--size");
        int timeoutMs = option(given, "--timeout");
        double mu = Math.log(option(given, "--pct50"));
        double sigma = (Math.log(option(given, "--pct75")) - mu) / 0.67449;
        Random random = new Random();
        long[] latencies = new long[SAMPLES];
        long[] intervals = new long[SAMPLES];
        double residue = 0;
        for (int place = 0; place < SAMPLES; place++) {
            latencies[place] = (long) Math.exp(mu + sigma * random.nextGaussian());
            double interval = -Math.log(1 - random.nextDouble()) * 1000 / rate + residue;
            intervals[place] = (long) interval;
            residue = interval - intervals[place];
        }
        List<String> keys = new ArrayList<>();
        for (int nth = 0; nth < option(given, "--keys"); nth++) {
            keys.add("fakeKey" + random.nextInt(option(given, "--key-space-size")));
        }
        CountDownLatch done = new CountDownLatch(number);
        Purgatory purgatory = new Purgatory();
        DelayQueue<Scheduled> completions = new DelayQueue<>();
        Thread completer = new Thread(() -> {
            try {
                while (true) {
                    completions.take().operation.forceComplete();
                }
            } catch (InterruptedException end) {
                return;
            }
        }, "completer");
        completer.setDaemon(true);
        completer.start();
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long cpuNs = system.getProcessCpuTime();
        long beganMs = System.currentTimeMillis();
        long dueMs = beganMs;
        for (int nth = 0; nth < number; nth++) {
            dueMs += intervals[random.nextInt(SAMPLES)];
            long latencyMs = latencies[random.nextInt(SAMPLES)];
            long earlyMs = dueMs - System.currentTimeMillis();
            if (earlyMs > 0) {
                Thread.sleep(earlyMs);
            }
            FakeOperation operation = new FakeOperation(timeoutMs, size, latencyMs, done);
            if (latencyMs < timeoutMs) {
                completions.add(new Scheduled(operation));
            }
            purgatory.tryCompleteElseWatch(operation, keys);
        }
        long endMs = System.currentTimeMillis();
        if (!done.await(LAST_MS, TimeUnit.MILLISECONDS)) {
            System.out.printf("# %d operations are left%n", done.getCount());
        }
        long doneMs = System.currentTimeMillis();
        long cpuMs = (system.getProcessCpuTime() - cpuNs) / 1_000_000;
        purgatory.shutdown();
        completer.interrupt();
        System.out.printf("%d\t%.0f\t%.0f\t%d%n", doneMs - beganMs,
            number * 1000.0 / Math.max(1, dueMs - beganMs), number * 1000.0 / Math.max(1, endMs - beganMs), cpuMs);
    }
}
