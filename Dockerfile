# Two stages: the first installs from the hash-locked list, the second holds the result and nothing to build with.
#
#   docker build -t sluice .
#   docker run --rm --network host --read-only --cap-drop ALL sluice run --upstream kafka-1:9092
#
# Sluice writes no file: it runs with a read-only root, without capabilities, as any user.
ARG PYTHON_IMAGE=python:3.13-slim

FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
COPY requirements/run.txt requirements/run.txt
RUN python3 -m venv /opt/sluice \
 && /opt/sluice/bin/python -m pip install --no-cache-dir --require-hashes -r requirements/run.txt
COPY pyproject.toml README.md LICENSE ./
COPY wire wire
COPY policies policies
COPY proxy proxy
RUN /opt/sluice/bin/python -m pip install --no-cache-dir --no-deps --no-build-isolation . \
 && /opt/sluice/bin/python -m pip uninstall --yes setuptools pip \
 && /opt/sluice/bin/sluice version

FROM ${PYTHON_IMAGE}
COPY --from=build /opt/sluice /opt/sluice
ENV PATH=/opt/sluice/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /
# The bootstrap port and one port for each of the node ids 0 to 31.
EXPOSE 19092-19124
STOPSIGNAL SIGTERM
ENTRYPOINT ["sluice"]
CMD ["run"]
