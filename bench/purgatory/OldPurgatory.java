// The request purgatory before Kafka 0.9, and the benchmark that the design of its successor was measured with.
//
// A port of kafka.server.RequestPurgatory of 0.8.2, which no released test jar has any more: a DelayQueue of requests,
// a watch list for each key, and a reaper thread. A completed request stays in the queue and in the lists until the
// reaper purges: it scans all lists when they hold more than the interval, and the whole queue when that does. The
// benchmark, its arguments and its line of figures are those of kafka.TestPurgatoryPerformance (3.9).

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

    static final class Request extends DelayedItem {
        final AtomicBoolean satisfied = new AtomicBoolean();
        final byte[] data;

        Request(long timeoutMs, int size) {
            super(System.currentTimeMillis() + timeoutMs);
            data = new byte[size];
        }
    }

    static final class Completion extends DelayedItem {
        final Request request;

        Completion(Request request, long latencyMs) {
            super(System.currentTimeMillis() + latencyMs);
            this.request = request;
        }
    }

    static final class Watchers {
        private final LinkedList<Request> requests = new LinkedList<>();

        synchronized int watched() {
            return requests.size();
        }

        // Kafka checks the request first; the benchmark's requests are never satisfied by a check.
        synchronized boolean addUnlessSatisfied(Request request) {
            return !request.satisfied.get() && requests.add(request);
        }

        synchronized void purgeSatisfied() {
            requests.removeIf(request -> request.satisfied.get());
        }
    }

    static final class Purgatory {
        private final ConcurrentHashMap<Object, Watchers> watchersForKey = new ConcurrentHashMap<>();
        private final DelayQueue<Request> delayed = new DelayQueue<>();
        private final CountDownLatch done;
        private volatile boolean running = true;
        private final Thread reaper = new Thread(this::reap, "reaper");

        Purgatory(CountDownLatch done) {
            this.done = done;
            reaper.setDaemon(true);
            reaper.start();
        }

        void watch(Request request, List<String> keys) {
            for (String key : keys) {
                Watchers watchers = watchersForKey.computeIfAbsent(key, each -> new Watchers());
                if (!watchers.addUnlessSatisfied(request)) {
                    return;
                }
            }
            delayed.add(request);
        }

        void complete(Request request) {
            if (request.satisfied.compareAndSet(false, true)) {
                done.countDown();
            }
        }

        private void reap() {
            while (running) {
                try {
                    Request expired = delayed.poll(POLL_MS, TimeUnit.MILLISECONDS);
                    while (expired != null && !expired.satisfied.compareAndSet(false, true)) {
                        expired = delayed.poll(POLL_MS, TimeUnit.MILLISECONDS);
                    }
                    if (expired != null) {
                        done.countDown();
                    }
                } catch (InterruptedException end) {
                    return;
                }
                if (watchersForKey.values().stream().mapToInt(Watchers::watched).sum() >= PURGE_INTERVAL) {
                    watchersForKey.values().forEach(Watchers::purgeSatisfied);
                }
                if (delayed.size() >= PURGE_INTERVAL) {
                    for (Iterator<Request> each = delayed.iterator(); each.hasNext();) {
                        if (each.next().satisfied.get()) {
                            each.remove();
                        }
                    }
                }
            }
        }

        void shutdown() {
            running = false;
            reaper.interrupt();
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
        Purgatory purgatory = new Purgatory(done);
        DelayQueue<Completion> completions = new DelayQueue<>();
        Thread completer = new Thread(() -> {
            try {
                while (true) {
                    purgatory.complete(completions.take().request);
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
            Request request = new Request(timeoutMs, size);
            if (latencyMs < timeoutMs) {
                completions.add(new Completion(request, latencyMs));
            }
            purgatory.watch(request, keys);
        }
        long endMs = System.currentTimeMillis();
        done.await(LAST_MS, TimeUnit.MILLISECONDS); // a reaper that is behind would take minutes
        long doneMs = System.currentTimeMillis();
        long cpuMs = (system.getProcessCpuTime() - cpuNs) / 1_000_000;
        purgatory.shutdown();
        completer.interrupt();
        System.out.printf("%d\t%.0f\t%.0f\t%d%n", doneMs - beganMs,
            number * 1000.0 / Math.max(1, dueMs - beganMs), number * 1000.0 / Math.max(1, endMs - beganMs), cpuMs);
    }
}
